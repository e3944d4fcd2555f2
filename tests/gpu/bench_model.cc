#include "bench_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "cache/paged_cache.h"
#include "engine/cpu_device.h"
#include "engine/cuda_memory.h"
#include "gpu_support.h"
#include "model/model.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/standin.h"

namespace glint::gpu {

namespace {

constexpr int64_t kContextMax = 8192 + 64;
constexpr int64_t kRowsMax = 8192;
constexpr int64_t kSequencesMax = 32;

ModelConfig real_width(int64_t sparse) {
  ModelConfig c;
  c.vocab_size = 1024;  // the head is measured apart
  c.hidden_size = 6144;
  c.num_hidden_layers = 1 + sparse;
  c.intermediate_size = 12288;
  c.moe_intermediate_size = 2048;
  c.max_position_embeddings = 1 << 20;
  c.num_attention_heads = 64;
  c.q_lora_rank = 2048;
  c.kv_lora_rank = 512;
  c.qk_nope_head_dim = 192;
  c.qk_rope_head_dim = 64;
  c.v_head_dim = 256;
  c.rope_theta = 8e6;
  c.rms_norm_eps = 1e-5F;
  c.index_n_heads = 32;
  c.index_head_dim = 128;
  c.index_topk = 2048;
  c.n_routed_experts = 256;
  c.num_experts_per_tok = 8;
  c.n_shared_experts = 1;
  c.routed_scaling_factor = 2.5F;
  // As in the whole model about one layer in four owns an indexer.
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    c.indexer_full.push_back(layer == 0 || layer == 1);
    c.mlp_sparse.push_back(layer > 0);
  }
  return c;
}

int64_t align(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

int64_t scale_bytes(const Weight& w) {
  return w.format == WeightFormat::fp8_block ? (w.rows + 127) / 128 * ((w.cols + 127) / 128) * 4 : 0;
}

}  // namespace

struct BenchModel::Parts {
  ModelConfig config;
  cudaStream_t stream = nullptr;
  std::unique_ptr<DeviceBytes> weights, ones, tables, step, cache, numbers;
  ops::cuda::ExpertTables expert_tables;
  std::unique_ptr<Model> model;
  std::unique_ptr<ops::Arena> arena;
  std::unique_ptr<ops::Ops> ops;
  ModelCaches caches;
  int64_t pages_per_sequence = 0;
  double fixed_bytes = 0;   // read by every step: all matrices but the routed experts
  double expert_bytes = 0;  // one routed expert
  double parameters_per_row = 0;
  double made_bytes = 0;  // of all weights, which were made on the device
  double made_us = 0;

  double timed(const Step& described, int rounds) {
    cudaEvent_t start = nullptr;
    cudaEvent_t end = nullptr;
    check(cudaEventCreate(&start), "event");
    check(cudaEventCreate(&end), "event");
    const auto once = [&] {
      const ops::Arena::Scope scope(*arena);
      model->forward(*ops, described, caches);
    };
    once();
    check(cudaStreamSynchronize(stream), "a step");
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    once();
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph), "capture");
    size_t nodes = 0;
    check(cudaGraphGetNodes(graph, nullptr, &nodes), "graph");
    cudaGraphExec_t run = nullptr;
    check(cudaGraphInstantiate(&run, graph, 0), "graph");
    std::vector<double> times;
    for (int round = 0; round <= rounds; ++round) {
      check(cudaEventRecord(start, stream), "event");
      check(cudaGraphLaunch(run, stream), "launch");
      check(cudaEventRecord(end, stream), "event");
      check(cudaEventSynchronize(end), "event");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, start, end), "event");
      if (round > 0) times.push_back(static_cast<double>(ms) * 1e3);
    }
    std::printf("  (%zu launches a step)\n", nodes);
    cudaGraphExecDestroy(run);
    cudaGraphDestroy(graph);
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  /// Rows [first, first + count) of each sequence.
  Step place(int64_t sequences, int64_t first, int64_t count) const {
    std::vector<int32_t> tokens, positions, sequence, pages, wanted;
    for (int64_t s = 0; s < sequences; ++s) {
      for (int64_t p = first; p < first + count; ++p) {
        tokens.push_back(static_cast<int32_t>((p * 7919 + s * 104729) % config.vocab_size));
        positions.push_back(static_cast<int32_t>(p));
        sequence.push_back(static_cast<int32_t>(s));
      }
      wanted.push_back(static_cast<int32_t>(tokens.size()) - 1);
      for (int64_t page = 0; page < pages_per_sequence; ++page)
        pages.push_back(static_cast<int32_t>(s * pages_per_sequence + page));
    }
    auto* next = reinterpret_cast<int32_t*>(numbers->data());
    const auto put = [&](const std::vector<int32_t>& values) {
      const int32_t* place = next;
      check(cudaMemcpy(next, values.data(), values.size() * 4, cudaMemcpyHostToDevice), "cudaMemcpy");
      next += (values.size() + 63) / 64 * 64;
      return place;
    };
    Step described;
    described.tokens = put(tokens);
    described.rows = {.rows = static_cast<int64_t>(tokens.size()),
                      .position = put(positions),
                      .sequence = put(sequence),
                      .pages = put(pages),
                      .pages_stride = pages_per_sequence,
                      .context_max = (first + count + 63) / 64 * 64};
    described.logits_rows = put(wanted);
    described.logits_count = sequences;
    return described;
  }
};

BenchModel::BenchModel(int64_t sparse, cudaStream_t stream) : parts_(std::make_unique<Parts>()) {
  Parts& p = *parts_;
  p.config = real_width(sparse);
  p.stream = stream;
  ModelWeights weights = planned_weights(p.config, CheckpointFormat::fp8);
  int64_t bytes = 0;
  const auto count = [&](const Weight& w) {
    bytes += align(weight_bytes(w.format, w.rows, w.cols)) + align(scale_bytes(w));
  };
  const auto nothing = [](FloatVector&) {};
  each_weight(
      weights, count, nothing, [&](Weight& w) { bytes += align(w.rows * w.cols * 2); },
      [&](std::vector<ops::ExpertWeights>& experts) {
        for (const ops::ExpertWeights& e : experts) count(e.gate), count(e.up), count(e.down);
      });
  p.weights = std::make_unique<DeviceBytes>("weights", bytes);
  p.ones = std::make_unique<DeviceBytes>("vectors", 64 << 10);
  p.tables = std::make_unique<DeviceBytes>("tables",
                                           sparse * 256 * static_cast<int64_t>(sizeof(ops::ExpertWeights)));
  const std::vector<float> ones(16 << 10, 1.0F);
  check(cudaMemcpy(p.ones->data(), ones.data(), ones.size() * 4, cudaMemcpyHostToDevice), "cudaMemcpy");
  std::byte* next = p.weights->data();
  const auto give = [&](Weight& w) {
    const int64_t size = weight_bytes(w.format, w.rows, w.cols);
    w.data = next;
    w.scale = next + align(size);
    next += align(size) + align(scale_bytes(w));
    const double spread = 1.2 * std::sqrt(3.0 / static_cast<double>(w.cols));
    ops::cuda::make_standin({static_cast<uint64_t>(size) ^ reinterpret_cast<uint64_t>(next), 0, spread}, w,
                            stream);
    return static_cast<double>(size);
  };
  std::byte* table = p.tables->data();
  check(cudaStreamSynchronize(stream), "the memory");
  const auto start = std::chrono::steady_clock::now();
  each_weight(
      weights,
      [&](Weight& w) {
        p.fixed_bytes += give(w);
        p.parameters_per_row += static_cast<double>(w.rows * w.cols);
      },
      nothing,
      [&](Weight& w) {
        w.format = WeightFormat::bf16;
        p.fixed_bytes += give(w);
        p.parameters_per_row += static_cast<double>(w.rows * w.cols);
      },
      [&](std::vector<ops::ExpertWeights>& experts) {
        for (ops::ExpertWeights& e : experts) p.expert_bytes = give(e.gate) + give(e.up) + give(e.down);
        check(cudaMemcpy(table, experts.data(), experts.size() * sizeof(ops::ExpertWeights),
                         cudaMemcpyHostToDevice),
              "cudaMemcpy");
        p.expert_tables[experts.data()] = reinterpret_cast<const Weight*>(table);
        table += experts.size() * sizeof(ops::ExpertWeights);
        p.parameters_per_row += 8.0 * static_cast<double>(3 * 6144 * 2048);
      });
  check(cudaStreamSynchronize(stream), "making weights");
  p.made_bytes = static_cast<double>(bytes);
  p.made_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  const double head = static_cast<double>(p.config.vocab_size * p.config.hidden_size);
  p.fixed_bytes -= 2 * 2 * head;
  p.parameters_per_row -= 2 * head;
  const auto* one = reinterpret_cast<const float*>(p.ones->data());
  for (LayerWeights& l : weights.layers) {
    for (FloatVector* v :
         {&l.input_layernorm, &l.post_attention_layernorm, &l.q_a_layernorm, &l.kv_a_layernorm,
          &l.indexer.k_norm_weight, &l.indexer.k_norm_bias, &l.e_score_correction_bias}) {
      v->set_device(one);
    }
  }
  weights.norm.set_device(one);
  // The table's address must not change: the vectors move with the model.
  p.model = std::make_unique<Model>(std::move(weights), rules_of(p.config));

  p.pages_per_sequence = kContextMax / 64;
  const CacheLayout layout = cache_layout(p.config, KvCacheDType::fp8);
  const int64_t cache_bytes = kSequencesMax * p.pages_per_sequence * layout.page_bytes;
  p.cache = std::make_unique<DeviceBytes>("cache", cache_bytes);
  check(cudaMemset(p.cache->data(), 0x20, static_cast<size_t>(cache_bytes)), "cudaMemset");
  p.caches = cache_views(p.config, layout, p.cache->data());
  DeviceOptions options;
  options.kv_cache_dtype = KvCacheDType::fp8;
  options.rows_max = kRowsMax;
  options.logits_max = kSequencesMax;
  options.context_max = kContextMax;
  ops::Arena measuring;
  const auto planner =
      ops::cuda::make_cuda_ops(ComputeDType::bfloat16, measuring, p.expert_tables, {}, nullptr);
  const int64_t step_bytes = planned_step(*p.model, options, *planner).peak_bytes;
  p.step = std::make_unique<DeviceBytes>("step memory", step_bytes);
  p.arena = std::make_unique<ops::Arena>(p.step->data(), step_bytes);
  p.ops = ops::cuda::make_cuda_ops(ComputeDType::bfloat16, *p.arena, p.expert_tables, {}, stream);
  p.numbers = std::make_unique<DeviceBytes>("step description", int64_t{4} << 20);
  check(cudaStreamSynchronize(stream), "filling weights");
}

BenchModel::~BenchModel() = default;

double BenchModel::made_bytes() const {
  return parts_->made_bytes;
}
double BenchModel::made_us() const {
  return parts_->made_us;
}

double BenchModel::decode_us(int64_t sequences, int64_t context) {
  return parts_->timed(parts_->place(sequences, context - 1, 1), 9);
}

double BenchModel::prefill_us(int64_t rows) {
  return parts_->timed(parts_->place(1, 0, rows), 3);
}

double BenchModel::decode_bytes(int64_t sequences, int64_t context) const {
  const Parts& p = *parts_;
  const auto layers = static_cast<double>(p.config.num_hidden_layers);
  const auto t = static_cast<double>(sequences);
  const double experts = 256 * (1 - std::pow(1 - 8.0 / 256, t));
  return p.fixed_bytes + (layers - 1) * experts * p.expert_bytes + t * 2048 * 656 * layers +
         t * static_cast<double>(context) * 132 * 2;
}

double BenchModel::prefill_flops(int64_t rows) const {
  const Parts& p = *parts_;
  const auto t = static_cast<double>(rows);
  // Positions that a row attends to: all up to 2,048.
  const double pairs = t * 2048 - 2048.0 * 2048 / 2;
  const double attention = 2 * 64 * (576.0 + 512) * pairs * static_cast<double>(p.config.num_hidden_layers);
  const double indexer = 2 * 32 * 128.0 * t * t / 2 * 2;
  return 2 * p.parameters_per_row * t + attention + indexer;
}

}  // namespace glint::gpu
