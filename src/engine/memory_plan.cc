#include "engine/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/integers.h"
#include "engine/plan_checks.h"
#include "engine/step_plan.h"

namespace glint {

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kDefaultCpuCacheBytes = int64_t{4} << 30;

// A GPU's own needs beside kGraphBytes: the driver's context, and the buffers of the collectives.
constexpr int64_t kContextBytes = 512 * kMiB;
constexpr int64_t kCommunicationBytes = 400 * kMiB;
constexpr int64_t kActivationBytes = 2;

void add_part(std::vector<PlanPart>& parts, std::string_view name, int64_t bytes) {
  for (PlanPart& part : parts) {
    if (part.name == name) {
      part.bytes += bytes;
      return;
    }
  }
  parts.push_back({std::string(name), bytes});
}

/// Bytes by part of the model, of each layer and of what lies outside the layers.
struct WeightTable {
  std::vector<std::vector<PlanPart>> layers;  // [layers_with_mtp]
  std::vector<int64_t> layer_bytes;
  int64_t embedding = 0, lm_head = 0, norm = 0;
};

WeightTable weigh(const ModelConfig& config, const PlanRequest& request) {
  WeightTable table;
  table.layers.resize(static_cast<size_t>(config.layers_with_mtp()));
  table.layer_bytes.resize(table.layers.size());
  // A GPU expands W_UK and W_UV to bfloat16; the CPU leaves every weight as it is stored.
  const bool absorbed_bf16 = request.device.kind == DeviceKind::gpu;
  for (const ModelTensor& tensor : model_tensors(config)) {
    const int64_t bytes = rank_bytes(tensor, config, request.format, request.layout, absorbed_bf16);
    const TensorPart part = part_of(tensor);
    if (tensor.layer >= 0) {
      add_part(table.layers[static_cast<size_t>(tensor.layer)], part_name(part), bytes);
      table.layer_bytes[static_cast<size_t>(tensor.layer)] += bytes;
    } else if (part == TensorPart::embedding) {
      table.embedding = bytes;
    } else if (part == TensorPart::lm_head) {
      table.lm_head = bytes;
    } else {
      table.norm = bytes;
    }
  }
  return table;
}

CacheBytes cache_bytes_of(const ModelConfig& config, int64_t first, int64_t layers, bool mtp, int64_t latent,
                          int64_t index) {
  CacheBytes bytes;
  for (int64_t layer = first; layer < first + layers; ++layer) {
    bytes.latent += latent;
    if (config.has_indexer(layer)) bytes.index += index;
  }
  if (mtp) {
    bytes.mtp_latent = latent;
    bytes.mtp_index = index;
  }
  return bytes;
}

/// Builds one plan.
class Planner {
 public:
  Planner(const ModelConfig& config, const PlanRequest& request)
      : config_(config), with_mtp_(request.engine.num_speculative_tokens != 0) {
    plan_.request = request;
    if (!plan_.request.engine.kv_cache_dtype) {
      plan_.request.engine.kv_cache_dtype = default_kv_cache_dtype(request.engine.dtype);
    }
  }

  MemoryPlan make() {
    check_engine_options(options(), config_);
    check_budget_flags(options());
    check_free_memory(options(), device());
    check_parallel();
    if (device().kind == DeviceKind::cpu) one_process();
    row_ = cache_row_bytes(config_, *options().kv_cache_dtype);
    weights_ = weigh(config_, plan_.request);
    choose_partition();
    for (size_t stage = 0, first = 0; stage < plan_.partition.size(); ++stage) {
      add_stage(static_cast<int64_t>(first), plan_.partition[stage], stage + 1 == plan_.partition.size());
      first += static_cast<size_t>(plan_.partition[stage]);
    }
    choose_length();
    take_cache();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] const EngineOptions& options() const { return plan_.request.engine; }
  [[nodiscard]] const DeviceMemory& device() const { return plan_.request.device; }
  [[nodiscard]] const RankLayout& layout() const { return plan_.request.layout; }

  void check_parallel() {
    const PlanRequest& request = plan_.request;
    check_layout(request.layout, config_, request.format);
    if (!request.partition.empty()) check_partition(request.partition, request.pipeline_parallel, config_);
    const auto starts = static_cast<int64_t>(aligned_starts(config_).size());
    if (request.partition.empty() && (request.pipeline_parallel < 1 || request.pipeline_parallel > starts)) {
      (void)balanced_partition(config_, request.pipeline_parallel,
                               [](int64_t, int64_t layers) { return layers; });
    }
    const int64_t replicas = request.layout.data_parallel;
    const int64_t world = request.layout.tensor_parallel * request.pipeline_parallel * replicas;
    if (device().kind == DeviceKind::gpu && world > device().count) {
      fail(ErrorKind::bad_input, "world size (", world, ", --tensor-parallel-size ",
           request.layout.tensor_parallel, " times --pipeline-parallel-size ", request.pipeline_parallel,
           replicas > 1 ? cat(" times --data-parallel-size ", replicas) : std::string(),
           ") is larger than the number of devices (", device().count, ")");
    }
    if (device().kind == DeviceKind::gpu && world < device().count) {
      note(cat(device().count - world, " of ", device().count, " devices are not used: ", "world size is ",
               world));
    }
    if (replicas > 1 && device().kind == DeviceKind::gpu) {
      note(cat("the plan is of one of ", replicas, " replicas; each holds as much"));
    }
    note_boundaries();
  }

  void note_boundaries() {
    const PipelinePartition& given = plan_.request.partition;
    const std::vector<int64_t> crossing = unaligned_stages(given, config_);
    if (crossing.empty()) return;
    const std::string nearest = partition_text(nearest_aligned(given, config_));
    std::string starts;
    for (const int64_t stage : crossing) {
      starts += cat(starts.empty() ? "" : ", ", stage_starts(given)[static_cast<size_t>(stage)]);
    }
    if (plan_.request.strict_boundaries) {
      fail(ErrorKind::bad_input, "argument --pp-layer-partition: ", partition_text(given),
           ": stages begin on layers ", starts,
           ", which have no indexer of their own, and --pp-strict-index-boundaries forbids that; the nearest "
           "partition without is ",
           nearest);
    }
    note(cat("--pp-layer-partition ", partition_text(given), ": stages begin on layers ", starts,
             ", which use the index lists of the stage before: ", config_.index_topk * 4,
             " bytes a token cross that boundary; the nearest partition without is ", nearest));
  }

  /// The CPU computes every rank in one process.
  void one_process() {
    PlanRequest& request = plan_.request;
    const int64_t world =
        request.layout.tensor_parallel * request.pipeline_parallel * request.layout.data_parallel;
    if (world > 1) {
      note(cat("the parallel sizes are legal for this model; on the CPU one process computes all ", world,
               " ranks"));
    }
    request.layout = {};
    request.pipeline_parallel = 1;
    request.partition.clear();
  }

  void choose_partition() {
    plan_.partition = plan_.request.partition;
    if (!plan_.partition.empty()) return;
    const int64_t length =
        options().max_model_len > 0 ? options().max_model_len : config_.max_position_embeddings;
    const CacheStriping striping = striping_of(layout());
    const int64_t ranks = layout().context_parallel;
    plan_.partition =
        balanced_partition(config_, plan_.request.pipeline_parallel, [&](int64_t first, int64_t layers) {
          const bool last = first + layers == config_.num_hidden_layers;
          const bool mtp = last && with_mtp_;
          int64_t bytes = std::accumulate(weights_.layer_bytes.begin() + first,
                                          weights_.layer_bytes.begin() + first + layers, int64_t{0});
          if (first == 0) bytes += weights_.embedding;
          if (last) bytes += weights_.lm_head + weights_.norm;
          if (mtp) bytes += weights_.layer_bytes.back() + (first > 0 ? weights_.embedding : 0);
          const CacheBytes cache = cache_bytes_of(config_, first, layers, mtp, row_.latent, row_.index);
          return bytes +
                 ceil_div(striped_bytes(cache.all_latent(), cache.all_index(), striping, ranks), ranks) *
                     length;
        });
  }

  void add_stage(int64_t first, int64_t layers, bool last) {
    StagePlan stage;
    stage.first_layer = first;
    stage.layers = layers;
    stage.has_mtp = last && with_mtp_;
    if (first == 0) add_part(stage.weights, part_name(TensorPart::embedding), weights_.embedding);
    for (int64_t layer = first; layer < first + layers; ++layer) {
      for (const PlanPart& part : weights_.layers[static_cast<size_t>(layer)]) {
        add_part(stage.weights, part.name, part.bytes);
      }
    }
    if (last) {
      add_part(stage.weights, part_name(TensorPart::norms), weights_.norm);
      add_part(stage.weights, part_name(TensorPart::lm_head), weights_.lm_head);
    }
    if (stage.has_mtp) {
      stage.speculation.push_back({"MTP layer", weights_.layer_bytes.back()});
      if (first > 0) stage.speculation.push_back({"embedding for the MTP layer", weights_.embedding});
      stage.hidden_carry_bytes = hidden_carry_bytes(config_, options(), device().kind);
    }
    if (device().kind == DeviceKind::gpu) add_fixed(stage);
    stage.token = cache_bytes_of(config_, first, layers, stage.has_mtp, row_.latent, row_.index);
    stage.page = cache_bytes_of(config_, first, layers, stage.has_mtp, row_.latent_page, row_.index_page);
    planners_.emplace_back(config_, plan_.request, first, layers, last);
    plan_.stages.push_back(std::move(stage));
  }

  void add_fixed(StagePlan& stage) const {
    stage.fixed = {{"context", kContextBytes}, {"graphs", kGraphBytes}};
    const PlanRequest& request = plan_.request;
    if (request.layout.tensor_parallel * request.pipeline_parallel == 1) return;
    int64_t communication = kCommunicationBytes;
    if (request.pipeline_parallel > 1) {  // hidden states on their way in and out
      communication += 2 * options().max_num_batched_tokens * config_.hidden_size * kActivationBytes;
    }
    stage.fixed.push_back({"comm", communication});
  }

  /// What the flags leave for the cache of a stage whose step was planned.
  [[nodiscard]] int64_t budget_of(const StagePlan& stage) const {
    if (options().kv_cache_memory_bytes > 0) return options().kv_cache_memory_bytes;
    const int64_t used = stage.used_without_cache();
    const auto share_of = [](double share, int64_t bytes) {
      return static_cast<int64_t>(std::floor(share * static_cast<double>(bytes)));
    };
    if (options().gpu_memory_utilization) {
      return share_of(*options().gpu_memory_utilization, device().total_bytes) - used;
    }
    if (options().mem_fraction_static) {
      const int64_t weights = sum_of(stage.weights) + sum_of(stage.speculation);
      return share_of(*options().mem_fraction_static, device().free_bytes) - weights;
    }
    return device().kind == DeviceKind::gpu ? device().free_bytes - used : kDefaultCpuCacheBytes;
  }

  /// Plans every stage's step at this context and counts the pages that fit all stages.
  int64_t pages_at(int64_t context) {
    const CacheStriping striping = striping_of(layout());
    int64_t pages = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      StagePlan& stage = plan_.stages[i];
      stage.step = planners_[i].step(context);
      stage.budget_bytes = budget_of(stage);
      pages = std::min(pages, units_that_fit(stage.budget_bytes, stage.page.all_latent(),
                                             stage.page.all_index(), striping, layout().context_parallel));
    }
    if (options().max_total_tokens > 0)
      pages = std::min(pages, options().max_total_tokens / ops::kPageTokens);
    return pages;
  }

  /// The largest number of pages n of one sequence for which n pages fit while its steps are planned; 0:
  /// none.
  int64_t longest_sequence() {
    int64_t fits = 0;
    int64_t too_many = ceil_div(config_.max_position_embeddings, ops::kPageTokens) + 1;
    while (too_many - fits > 1) {
      const int64_t pages = std::midpoint(fits, too_many);
      if (pages_at(std::min(pages * ops::kPageTokens, config_.max_position_embeddings)) >= pages) {
        fits = pages;
      } else {
        too_many = pages;
      }
    }
    return fits;
  }

  void choose_length() {
    const int64_t longest = config_.max_position_embeddings;
    plan_.length_is_automatic = options().max_model_len == 0;
    const int64_t wanted = plan_.length_is_automatic ? longest : options().max_model_len;
    check_indexer_budget(config_, plan_.request, wanted);
    plan_.max_model_len = wanted;
    plan_.pages = pages_at(wanted);
    if (plan_.pages * ops::kPageTokens >= wanted) return;
    const int64_t pages = longest_sequence();
    if (pages == 0) refuse_no_memory();
    const int64_t fits = std::min(pages * ops::kPageTokens, longest);
    if (!plan_.length_is_automatic) refuse_length(wanted, fits);
    plan_.max_model_len = fits;
    plan_.pages = pages_at(fits);
  }

  [[noreturn]] void refuse_no_memory() {
    (void)pages_at(ops::kPageTokens);
    const StagePlan& stage = narrowest();
    const int64_t page = stage_page_bytes(stage);
    fail(ErrorKind::bad_input, "No available memory for the cache blocks: one page of 64 tokens takes ", page,
         " bytes, ", std::max<int64_t>(0, stage.budget_bytes), " are left for the cache by ",
         budget_source(options()), " after ", stage.used_without_cache(),
         " of weights, workspace and buffers: ", budget_advice(plan_.request));
  }

  [[noreturn]] void refuse_length(int64_t wanted, int64_t fits) {
    (void)pages_at(wanted);
    const StagePlan& stage = narrowest();
    const int64_t pages = ceil_div(wanted, ops::kPageTokens * layout().context_parallel);
    fail(ErrorKind::bad_input, "To serve at least one request with the models's max seq len (", wanted,
         "), (", gib_text(pages * stage_page_bytes(stage)),
         " GiB KV cache is needed, which is larger than the available KV cache memory (",
         gib_text(std::max<int64_t>(0, stage.budget_bytes)),
         " GiB). Based on the available memory, the estimated maximum model length is ", fits,
         ". Try increasing gpu_memory_utilization or decreasing max_model_len: ",
         budget_advice(plan_.request));
  }

  /// Of one stripe: a page on each rank of the stripe.
  [[nodiscard]] int64_t stage_page_bytes(const StagePlan& stage) const {
    if (layout().context_parallel == 1) return stage.page.total();
    return striped_bytes(stage.page.all_latent(), stage.page.all_index(), striping_of(layout()),
                         layout().context_parallel);
  }

  /// The stage that limits the cache.
  [[nodiscard]] const StagePlan& narrowest() const {
    return *std::min_element(
        plan_.stages.begin(), plan_.stages.end(), [&](const StagePlan& a, const StagePlan& b) {
          const auto room = [&](const StagePlan& stage) {
            return static_cast<double>(stage.budget_bytes) / static_cast<double>(stage_page_bytes(stage));
          };
          return room(a) < room(b);
        });
  }

  void take_cache() {
    count_stripings();
    if (device().kind == DeviceKind::cpu && !explicit_budget()) {
      plan_.pages =
          std::min(plan_.pages, ceil_div(plan_.max_model_len, ops::kPageTokens) * options().max_num_seqs);
    }
    const int64_t ranks = layout().context_parallel;
    const int64_t stripes = ceil_div(plan_.pages, ranks);
    const bool latent_striped = striping_of(layout()) != CacheStriping::replicated;
    const bool index_striped = striping_of(layout()) == CacheStriping::both;
    for (StagePlan& stage : plan_.stages) {
      const int64_t latent_pages = latent_striped ? stripes : plan_.pages;
      const int64_t index_pages = index_striped ? stripes : plan_.pages;
      stage.cache = {{"latent rows", latent_pages * stage.page.latent},
                     {"index keys", index_pages * stage.page.index}};
      if (stage.has_mtp) {
        stage.cache.push_back({"MTP latent rows", latent_pages * stage.page.mtp_latent});
        stage.cache.push_back({"MTP index keys", index_pages * stage.page.mtp_index});
      }
      stage.free_bytes = device().free_bytes - stage.used_without_cache() - sum_of(stage.cache);
      // On the CPU the weights are mapped files: their pages can be dropped, so they do not count against
      // what is free.
      if (device().kind == DeviceKind::cpu) {
        stage.free_bytes = device().free_bytes - stage.step.peak_bytes - sum_of(stage.cache);
      }
      if (device().free_bytes > 0 && stage.free_bytes < 0) refuse_overfull(stage);
    }
  }

  [[noreturn]] void refuse_overfull(const StagePlan& stage) const {
    fail(ErrorKind::bad_input, "the plan takes ", sum_of(stage.cache), " bytes of cache and ",
         stage.step.peak_bytes, " of step memory beside ", sum_of(stage.weights) + sum_of(stage.speculation),
         " of weights, ", device().free_bytes, " are available: lower ", budget_source(options()),
         ", --max-model-len, --max-num-seqs or --max-num-batched-tokens");
  }

  [[nodiscard]] bool explicit_budget() const {
    return options().kv_cache_memory_bytes > 0 || options().gpu_memory_utilization ||
           options().mem_fraction_static;
  }

  void count_stripings() {
    const int64_t ranks = layout().tensor_parallel;
    for (size_t i = 0; i < plan_.tokens_by_striping.size(); ++i) {
      int64_t pages = std::numeric_limits<int64_t>::max();
      for (const StagePlan& stage : plan_.stages) {
        pages = std::min(pages, units_that_fit(stage.budget_bytes, stage.page.all_latent(),
                                               stage.page.all_index(), static_cast<CacheStriping>(i), ranks));
      }
      plan_.tokens_by_striping[i] = pages * ops::kPageTokens;
    }
  }

  void note(std::string text) { plan_.notes.push_back(std::move(text)); }

  const ModelConfig& config_;
  bool with_mtp_;
  MemoryPlan plan_;
  CacheRowBytes row_;
  WeightTable weights_;
  std::vector<StepPlanner> planners_;
};

}  // namespace

int64_t sum_of(const std::vector<PlanPart>& parts) {
  int64_t sum = 0;
  for (const PlanPart& part : parts) sum += part.bytes;
  return sum;
}

int64_t MemoryPlan::tokens() const {
  return pages * ops::kPageTokens;
}

double MemoryPlan::concurrency() const {
  return static_cast<double>(tokens()) / static_cast<double>(max_model_len);
}

MemoryPlan plan_memory(const ModelConfig& config, const PlanRequest& request) {
  return Planner(config, request).make();
}

PlanRequest cpu_request(CheckpointFormat format, const EngineOptions& options) {
  PlanRequest request;
  request.format = format;
  request.device = this_machine();
  request.engine = options;
  return request;
}

}  // namespace glint
