// glint-gpu-bench OUT.json [NAME ...]: what the CUDA operations cost beside this GPU's own copy rate,
// measured in the same run. Times are medians of graph replays over operands that rotate, so that the
// second-level cache is cold; data is random. Prints a table; OUT.json gets every figure.
#include "bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>

#include "bench_model.h"
#include "bench_parts.h"
#include "gpu_support.h"
#include "ops/cuda/quantize_rows.h"
#include "ops/cuda/sample.h"
#include "ops/cuda/select.h"

namespace glint::gpu {
namespace {

Weight weight_in(const Slab& slab, const Slab& scales, WeightFormat format, int64_t rows, int64_t cols,
                 int64_t index) {
  const int64_t bytes = weight_bytes(format, rows, cols);
  return {.format = format,
          .rows = rows,
          .cols = cols,
          .data = slab.at((bytes + 255) / 256 * 256 * index),
          .scale = scales.data,
          .block_scale = static_cast<const uint8_t*>(scales.data),
          .global_scale = 0.01F};
}

void bench_linear(Bench& bench, WeightFormat format, const char* name) {
  struct Shape {
    const char* what;
    int64_t rows, cols;
  };
  const Shape shapes[] = {{"o_proj", 6144, 16384},
                          {"q_b", 16384, 2048},
                          {"q_a", 2048, 6144},
                          {"kv_a", 576, 6144},
                          {"gate, dense", 12288, 6144}};
  const Slab scales(int64_t{64} << 20);
  fill_scales(scales.data, int64_t{64} << 20, format == WeightFormat::nvfp4, bench.stream());
  for (const Shape& shape : shapes) {
    const int64_t bytes = weight_bytes(format, shape.rows, shape.cols);
    const int64_t stride = (bytes + 255) / 256 * 256;
    const auto copies = static_cast<int>(std::max<int64_t>(2, kColdBytes / bytes));
    const Slab slab(stride * copies);
    fill_weights(slab.data, stride * copies, format, bench.stream());
    for (const int64_t m : {1, 4, 8, 16, 32, 64, 4096}) {
      Backend backend(ComputeDType::bfloat16, {}, bench.stream());
      std::mt19937_64 random(1);
      const Activation x = backend.put(backend.random_values(m * shape.cols, 1.0, random), shape.cols);
      const Activation y = backend.ops().activation(m, shape.rows);
      const double us = bench.time_us(
          [&](int i) {
            backend.ops().linear(x, weight_in(slab, scales, format, shape.rows, shape.cols, i % copies), y);
          },
          m > 64 ? 4 : 40);
      const bool few = m <= 64;
      bench.add({cat(name, " linear ", shape.what, " M ", m), us,
                 few ? static_cast<double>(bytes + m * 2 * (shape.rows + shape.cols)) : 0.0,
                 few ? 0.0 : 2.0 * static_cast<double>(m * shape.rows * shape.cols)});
    }
  }
}

void bench_experts(Bench& bench, WeightFormat format, const char* name) {
  constexpr int64_t kExperts = 256, kHidden = 6144, kInner = 2048, kChosen = 8;
  const int64_t bytes = (weight_bytes(format, kInner, kHidden) + 255) / 256 * 256;
  const Slab slab(3 * kExperts * bytes);
  fill_weights(slab.data, 3 * kExperts * bytes, format, bench.stream());
  const Slab scales(int64_t{64} << 20);
  fill_scales(scales.data, int64_t{64} << 20, format == WeightFormat::nvfp4, bench.stream());
  std::vector<ops::ExpertWeights> table;
  for (int64_t e = 0; e < kExperts; ++e) {
    table.push_back({weight_in(slab, scales, format, kInner, kHidden, 3 * e),
                     weight_in(slab, scales, format, kInner, kHidden, 3 * e + 1),
                     weight_in(slab, scales, format, kHidden, kInner, 3 * e + 2)});
  }
  const DeviceArray<ops::ExpertWeights> device_table(table);
  for (const int64_t rows : {1, 4, 8, 32, 128, 1024, 4096}) {
    Backend backend(ComputeDType::bfloat16, {}, bench.stream());
    backend.tables()[table.data()] = reinterpret_cast<const Weight*>(device_table.data());
    std::mt19937_64 random(2);
    const Activation x = backend.put(backend.random_values(rows * kHidden, 1.0, random), kHidden);
    constexpr int kSets = 8;
    std::vector<Ints> chosen;
    double distinct = 0;
    for (int set = 0; set < kSets; ++set) {
      std::vector<int32_t> ids;
      std::vector<bool> used(kExperts);
      for (int64_t row = 0; row < rows; ++row) {
        std::vector<int32_t> all(kExperts);
        for (int32_t i = 0; i < kExperts; ++i) all[static_cast<size_t>(i)] = i;
        std::shuffle(all.begin(), all.end(), random);
        std::sort(all.begin(), all.begin() + kChosen);
        ids.insert(ids.end(), all.begin(), all.begin() + kChosen);
        for (int64_t j = 0; j < kChosen; ++j) used[static_cast<size_t>(all[static_cast<size_t>(j)])] = true;
      }
      distinct += static_cast<double>(std::count(used.begin(), used.end(), true)) / kSets;
      chosen.push_back(backend.put_ints(ids, kChosen));
    }
    const Floats weights =
        backend.put_floats(std::vector<float>(static_cast<size_t>(rows * kChosen), 0.3F), kChosen);
    const Floats y = backend.ops().floats(rows, kHidden);
    const double us = bench.time_us(
        [&](int i) { backend.ops().experts(x, chosen[static_cast<size_t>(i % kSets)], weights, table, y); },
        rows > 128 ? 4 : 16);
    const double read = distinct * 3 * static_cast<double>(weight_bytes(format, kInner, kHidden));
    bench.add({cat(name, " experts, 256 of which 8, rows ", rows), us, rows <= 128 ? read : 0.0,
               rows > 128 ? 2.0 * static_cast<double>(rows * kChosen * 3 * kHidden * kInner) : 0.0});
  }
}

void bench_attention(Bench& bench) {
  // Every call has lists of its own, so that no call finds the rows of the last in the cache.
  constexpr int64_t kWidth = 576, kTopk = 2048, kSequences = 32, kSequencePages = 512;
  constexpr int64_t kPages = kSequences * kSequencePages, kSpan = kSequencePages * 64;
  for (const bool fp8 : {false, true}) {
    const int64_t row_bytes = fp8 ? 656 : 1152;
    const Slab slab(kPages * 64 * row_bytes);
    fill_weights(slab.data, kPages * 64 * row_bytes, WeightFormat::bf16, bench.stream());
    const ops::CacheLayer cache{.base = slab.at(0),
                                .page_bytes = 64 * row_bytes,
                                .row_bytes = row_bytes,
                                .width = kWidth,
                                .quantized = 512,
                                .format = fp8 ? ops::CacheFormat::fp8_latent : ops::CacheFormat::bfloat16};
    if (fp8) fill_fp8_rows(slab.data, kPages * 64, bench.stream());
    for (const int64_t heads : {8, 64}) {
      for (const int64_t rows : {1, 6, 8, 32, 128, 2048}) {
        Backend backend(ComputeDType::bfloat16, {}, bench.stream());
        std::mt19937_64 random(3);
        const Activation q =
            backend.put(backend.random_values(rows * heads * kWidth, 1.0, random), heads * kWidth);
        const Activation o = backend.ops().activation(rows, heads * 512);
        std::vector<int32_t> pages(kPages), sequences;
        for (int32_t i = 0; i < kPages; ++i) pages[static_cast<size_t>(i)] = i;
        std::shuffle(pages.begin(), pages.end(), random);
        for (int64_t row = 0; row < rows; ++row) {
          sequences.push_back(static_cast<int32_t>(rows < kSequences ? row : row * kSequences / rows));
        }
        const ops::RowMap map{
            rows,
            backend.put_ints(std::vector<int32_t>(static_cast<size_t>(rows), kSpan - 1), 1).data,
            backend.put_ints(sequences, 1).data,
            backend.put_ints(pages, 1).data,
            kSequencePages,
            kSpan};
        const Ints counts = backend.put_ints(std::vector<int32_t>(static_cast<size_t>(rows), kTopk), 1);
        std::vector<ops::Selection> selections;
        for (int set = 0; set < (rows > 128 ? 1 : 8); ++set) {
          std::vector<int32_t> lists;
          for (int64_t i = 0; i < rows * kTopk; ++i) {
            constexpr int64_t kStep = kSpan / kTopk;
            lists.push_back(static_cast<int32_t>(i % kTopk * kStep + static_cast<int64_t>(random() % kStep)));
          }
          selections.push_back({.lists = backend.put_ints(lists, kTopk), .count = counts.data});
        }
        const double us = bench.time_us(
            [&](int i) {
              backend.ops().sparse_attention(q, map, selections[static_cast<size_t>(i) % selections.size()],
                                             cache, heads, 512, 1.0F / 16, o);
            },
            rows > 128 ? 2 : 24);
        const bool memory_bound = rows <= 128 && heads == 8;
        bench.add({cat("sparse attention ", fp8 ? "fp8" : "bf16", " rows, ", heads, " heads, B ", rows), us,
                   memory_bound ? static_cast<double>(rows * kTopk * row_bytes) : 0.0,
                   2.0 * static_cast<double>(rows * heads * kTopk * (kWidth + 512))});
      }
    }
  }
}

void bench_select(Bench& bench) {
  constexpr int64_t kTopk = 2048;
  for (const int64_t n : {8192, 131072, 1048576}) {
    const int64_t key_bytes = n * 132;
    const Slab slab(key_bytes);
    fill_weights(slab.data, key_bytes, WeightFormat::fp8_block, bench.stream());
    fill_key_scales(slab.data, n / 64, bench.stream());
    const ops::CacheLayer keys{.base = slab.at(0),
                               .page_bytes = 64 * 132,
                               .row_bytes = 128,
                               .width = 128,
                               .format = ops::CacheFormat::fp8_keys};
    for (const int64_t rows : {1, 4, 64, 1024}) {
      if (rows * n > (int64_t{1} << 27)) continue;
      Backend backend(ComputeDType::bfloat16, {}, bench.stream());
      std::mt19937_64 random(4);
      std::vector<int32_t> pages;
      for (int32_t i = 0; i < n / 64; ++i) pages.push_back(i);
      const ops::RowMap map{
          rows,
          backend.put_ints(std::vector<int32_t>(static_cast<size_t>(rows), static_cast<int32_t>(n - 1)), 1)
              .data,
          backend.put_ints(std::vector<int32_t>(static_cast<size_t>(rows), 0), 1).data,
          backend.put_ints(pages, 1).data,
          n / 64,
          n};
      const Activation q = backend.put(backend.random_values(rows * 4096, 1.0, random), 4096);
      const Floats w = backend.put_floats(std::vector<float>(static_cast<size_t>(rows * 32), 0.5F), 32);
      const Floats scores = backend.ops().floats(rows, n);
      const ops::Selection out{.lists = backend.ops().ints(rows, kTopk),
                               .count = backend.ops().ints(rows, 1).data};
      const int calls = rows > 64 ? 2 : 10;
      const double scored = bench.time_us(
          [&](int) {
            ops::cuda::score_keys(q, w, 1.0F / 64, map, keys, 32, 0, rows, scores.data, n,
                                  ComputeDType::bfloat16, bench.stream());
          },
          calls);
      bench.add({cat("indexer scores of ", n, " keys, rows ", rows), scored,
                 rows <= 4 ? static_cast<double>(key_bytes) : 0.0,
                 2.0 * static_cast<double>(rows * n) * 32 * 128});
      const double selected = bench.time_us(
          [&](int) { ops::cuda::select_largest(scores.data, n, map, 0, rows, kTopk, out, bench.stream()); },
          calls);
      bench.add(
          {cat("selection of 2048 of ", n, ", rows ", rows), selected, static_cast<double>(rows * n * 4), 0});
    }
  }
}

/// Sampling of every row of a step by its own rules; the logits are as a head leaves them, in the
/// second-level cache.
void bench_sampling(Bench& bench) {
  constexpr int64_t kVocab = 154880;
  constexpr int64_t kRows = 128;
  // Probabilities fall as 1 / rank^1.5: 0.95 of them are in some 200 ids.
  std::mt19937_64 random(5);
  std::vector<float> row(kVocab);
  for (size_t rank = 0; rank < row.size(); ++rank) row[rank] = -1.5F * std::log(static_cast<float>(rank + 1));
  std::vector<float> values;
  for (int64_t r = 0; r < kRows; ++r) {
    std::shuffle(row.begin(), row.end(), random);
    values.insert(values.end(), row.begin(), row.end());
  }
  const DeviceArray<float> logits(values);
  const DeviceArray<uint32_t> sampleable(std::vector<uint32_t>(kVocab / 32, ~0U));
  const DeviceArray<int32_t> generated(std::vector<int32_t>(kRows, 7));
  const DeviceArray<int32_t> tokens(std::vector<int32_t>(kRows, 0));
  const DeviceArray<uint8_t> memory(
      std::vector<uint8_t>(static_cast<size_t>(ops::cuda::sample_scratch_bytes(kRows, kVocab))));
  const std::pair<const char*, ops::cuda::SampleParams> rules[] = {
      {"greedy", {.temperature = 0, .top_p = 1, .min_p = 0, .top_k = 0, .seed = 3}},
      {"temperature 0.7", {.temperature = 0.7F, .top_p = 1, .min_p = 0, .top_k = 0, .seed = 3}},
      {"temperature 1, top_p 0.95", {.temperature = 1, .top_p = 0.95F, .min_p = 0, .top_k = 0, .seed = 3}},
      {"temperature 1, top_k 50, top_p 0.95",
       {.temperature = 1, .top_p = 0.95F, .min_p = 0, .top_k = 50, .seed = 3}}};
  for (const auto& [name, params] : rules) {
    const DeviceArray<ops::cuda::SampleParams> all(std::vector<ops::cuda::SampleParams>(kRows, params));
    for (const int64_t rows : {1, 8, 32, 128}) {
      const ops::cuda::SampleRows job{.logits = {logits.data(), rows, kVocab, kVocab},
                                      .sampleable = sampleable.data(),
                                      .params = all.data(),
                                      .generated = generated.data(),
                                      .tokens = tokens.data()};
      const double us = bench.time_us(
          [&](int) { ops::cuda::sample(job, {.memory = memory.data(), .rows_max = kRows}, bench.stream()); },
          10);
      bench.add({cat("sampling of ", kVocab, " ids, ", name, ", rows ", rows), us, 0, 0});
    }
  }
}

void bench_model(Bench& bench) {
  BenchModel model(4, bench.stream());
  bench.add(
      {"1 dense and 4 MoE layers, FP8, weights made on the device", model.made_us(), model.made_bytes(), 0});
  for (const int64_t sequences : {1, 8, 32}) {
    const double us = model.decode_us(sequences, 8192);
    bench.add({cat("1 dense and 4 MoE layers, FP8, decode, context 8192, B ", sequences), us,
               model.decode_bytes(sequences, 8192), 0});
  }
  const double us = model.prefill_us(8192);
  bench.add({"1 dense and 4 MoE layers, FP8, prefill of 8192", us, 0, model.prefill_flops(8192)});
}

struct Part {
  const char* name;
  void (*run)(Bench&);
};
const Part kParts[] = {{"linear fp8", [](Bench& b) { bench_linear(b, WeightFormat::fp8_block, "fp8"); }},
                       {"linear bf16", [](Bench& b) { bench_linear(b, WeightFormat::bf16, "bf16"); }},
                       {"experts fp8", [](Bench& b) { bench_experts(b, WeightFormat::fp8_block, "fp8"); }},
                       {"experts nvfp4", [](Bench& b) { bench_experts(b, WeightFormat::nvfp4, "nvfp4"); }},
                       {"attention", bench_attention},
                       {"select", bench_select},
                       {"sampling", bench_sampling},
                       {"model", bench_model},
                       {"peer cublaslt", bench_cublaslt},
#ifdef GLINT_CUTLASS
                       {"peer cutlass", bench_cutlass},
#endif
                       {"load", bench_load}};

/// Runs the parts whose names contain one of the texts, or all. 1 if one failed: its figures are missing.
int run(int argc, char** argv) {
  ops::cuda::prepare_kernels();
  Bench bench;
  bench.copy();
  int failed = 0;
  for (const Part& part : kParts) {
    bool wanted = argc <= 2;
    for (int i = 2; i < argc; ++i) wanted = wanted || std::strstr(part.name, argv[i]) != nullptr;
    if (!wanted) continue;
    const auto begin = std::chrono::steady_clock::now();
    try {
      part.run(bench);
    } catch (const std::exception& error) {
      std::printf("FAIL %s: %s\n", part.name, error.what());
      ++failed;
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    std::printf("part %s: %.1f s\n", part.name, taken.count());
    std::fflush(stdout);
    std::ofstream(argv[1]) << bench.all().dump(1) << "\n";  // what is there so far, should time end this
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace glint::gpu

int main(int argc, char** argv) {
  int devices = 0;
  if (argc < 2 || cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts(argc < 2 ? "glint-gpu-bench OUT.json [NAME ...]" : "no CUDA device: nothing was measured");
    return argc < 2 ? 2 : 77;
  }
  return glint::gpu::run(argc, argv);
}
