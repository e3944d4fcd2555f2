// The indexer, the exact selection and sparse attention.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "cache/paged_cache.h"
#include "gpu_support.h"
#include "ops/cpu/select_topk.h"
#include "ops/cuda/select.h"

namespace glint::gpu {
namespace {

/// One layer's cache on the device filled with random rows, and the values that its formats hold.
struct Filled {
  ops::CacheLayer layer;
  std::unique_ptr<DeviceArray<uint8_t>> slab;
  std::vector<float> values;  // [sequences][positions][width]
  std::vector<int32_t> pages;
  int64_t pages_stride = 0, positions = 0;

  [[nodiscard]] const float* row(int64_t sequence, int64_t position) const {
    return values.data() + (sequence * positions + position) * layer.width;
  }
};

/// What a row holds after it was written and read back, by the definition of the formats.
std::vector<float> stored(const std::vector<float>& x, ops::CacheFormat format, int64_t quantized) {
  std::vector<float> out = x;
  const auto quantise = [&](size_t first, size_t count, float scale) {
    for (size_t i = first; i < first + count; ++i)
      out[i] = e4m3_to_float(float_to_e4m3(x[i] / scale)) * scale;
  };
  const auto largest = [&](size_t first, size_t count) {
    float value = 0;
    for (size_t i = first; i < first + count; ++i) value = std::max(value, std::abs(x[i]));
    return value;
  };
  switch (format) {
    case ops::CacheFormat::float32:
      break;
    case ops::CacheFormat::bfloat16:
      for (float& value : out) value = round_to_bf16(value);
      break;
    case ops::CacheFormat::fp8_latent:
      for (float& value : out) value = round_to_bf16(value);
      for (int64_t first = 0; first < quantized; first += 128) {
        const auto count = static_cast<size_t>(std::min<int64_t>(128, quantized - first));
        const auto at = static_cast<size_t>(first);
        quantise(at, count, std::max(largest(at, count) / 448.0F, 1.17549435e-38F));
      }
      break;
    case ops::CacheFormat::fp8_keys:
      quantise(0, x.size(), std::exp2(std::ceil(std::log2(std::max(largest(0, x.size()), 1e-4F) / 448.0F))));
      break;
  }
  return out;
}

Filled fill_cache(Backend& backend, ops::CacheFormat format, int64_t sequences, int64_t positions,
                  int64_t width, int64_t quantized, std::mt19937_64& random) {
  Filled cache;
  cache.positions = positions;
  cache.pages_stride = (positions + 63) / 64;
  const int64_t pages = sequences * cache.pages_stride;
  cache.pages.resize(static_cast<size_t>(pages));
  std::iota(cache.pages.begin(), cache.pages.end(), 0);
  std::shuffle(cache.pages.begin(), cache.pages.end(), random);
  int64_t row_bytes = width * (format == ops::CacheFormat::float32 ? 4 : 2);
  if (format == ops::CacheFormat::fp8_latent)
    row_bytes = quantized + (quantized + 127) / 128 * 4 + (width - quantized) * 2;
  if (format == ops::CacheFormat::fp8_keys) row_bytes = width;
  const int64_t page_bytes = (row_bytes + (format == ops::CacheFormat::fp8_keys ? 4 : 0)) * 64;
  cache.slab = std::make_unique<DeviceArray<uint8_t>>(
      std::vector<uint8_t>(static_cast<size_t>(pages * page_bytes), 0xFF));
  cache.layer = {.base = reinterpret_cast<std::byte*>(cache.slab->data()),
                 .page_bytes = page_bytes,
                 .row_bytes = row_bytes,
                 .width = width,
                 .quantized = quantized,
                 .format = format};
  std::vector<int32_t> all_positions;
  std::vector<int32_t> all_sequences;
  for (int64_t s = 0; s < sequences; ++s) {
    for (int64_t p = 0; p < positions; ++p) {
      all_positions.push_back(static_cast<int32_t>(p));
      all_sequences.push_back(static_cast<int32_t>(s));
    }
  }
  const std::vector<float> x = backend.random_values(sequences * positions * width, 1.0, random);
  const auto rows = sequences * positions;
  ops::RowMap map{rows,
                  backend.put_ints(all_positions, 1).data,
                  backend.put_ints(all_sequences, 1).data,
                  backend.put_ints(cache.pages, 1).data,
                  cache.pages_stride,
                  positions};
  backend.ops().write_cache(backend.put(x, width), map, cache.layer);
  cache.values.resize(x.size());
  parallel(rows, [&](int64_t row) {
    const auto out = stored({x.begin() + row * width, x.begin() + (row + 1) * width}, format, quantized);
    std::copy(out.begin(), out.end(), cache.values.begin() + row * width);
  });
  return cache;
}

struct Placed {
  std::vector<int32_t> positions, sequences;
  ops::RowMap map;
};

Placed place_rows(Backend& backend, const Filled& cache,
                  const std::vector<std::pair<int32_t, int32_t>>& rows) {
  Placed placed;
  int32_t last = 0;
  for (const auto& [sequence, position] : rows) {
    placed.sequences.push_back(sequence);
    placed.positions.push_back(position);
    last = std::max(last, position);
  }
  placed.map = {static_cast<int64_t>(rows.size()),
                backend.put_ints(placed.positions, 1).data,
                backend.put_ints(placed.sequences, 1).data,
                backend.put_ints(cache.pages, 1).data,
                cache.pages_stride,
                last + 1};
  return placed;
}

/// `count` ascending positions out of [0, last].
std::vector<int32_t> random_list(int64_t count, int64_t last, std::mt19937_64& random) {
  std::vector<int32_t> all(static_cast<size_t>(last + 1));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(static_cast<size_t>(std::min(count, last + 1)));
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<double> attended(const Filled& cache, const float* q, int64_t sequence,
                             const std::vector<int32_t>& list, int64_t kv_lora, double scale) {
  std::vector<double> scores;
  double largest = -1e300;
  for (const int32_t position : list) {
    const float* row = cache.row(sequence, position);
    double dot = 0;
    for (int64_t d = 0; d < cache.layer.width; ++d)
      dot += static_cast<double>(q[d]) * static_cast<double>(row[d]);
    scores.push_back(dot * scale);
    largest = std::max(largest, scores.back());
  }
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  std::vector<double> out(static_cast<size_t>(kv_lora));
  for (size_t i = 0; i < list.size(); ++i) {
    const float* row = cache.row(sequence, list[i]);
    for (size_t d = 0; d < out.size(); ++d) out[d] += scores[i] / sum * static_cast<double>(row[d]);
  }
  return out;
}

void check_attention(ComputeDType dtype, ops::CacheFormat format, int64_t heads, int64_t kv_lora,
                     int64_t rope, int64_t topk) {
  std::mt19937_64 random(std::random_device{}());
  Backend backend(dtype);
  const int64_t width = kv_lora + rope;
  const int64_t positions = topk + 200;
  const int64_t sequences = 3;
  const Filled cache = fill_cache(backend, format, sequences, positions, width, kv_lora, random);
  double worst = 0;
  std::vector<float> alone;
  std::vector<float> first_q;
  std::vector<int32_t> first_list;
  const auto first_position = static_cast<int32_t>(positions - 1);
  for (const int64_t rows : {1, 2, 6, 40, 100, 300}) {
    backend.reset();
    std::vector<std::pair<int32_t, int32_t>> where;
    for (int64_t i = 0; i < rows; ++i) {
      const auto position =
          static_cast<int32_t>(i == 0   ? first_position
                               : i == 1 ? 0
                                        : static_cast<int64_t>(random() % static_cast<uint64_t>(positions)));
      where.emplace_back(static_cast<int32_t>(i * sequences / rows), position);
    }
    where[0].first = 0;
    const Placed placed = place_rows(backend, cache, where);
    std::vector<float> q = backend.random_values(rows * heads * width, 1.0, random);
    std::vector<std::vector<int32_t>> lists;
    for (int64_t i = 0; i < rows; ++i)
      lists.push_back(random_list(topk, where[static_cast<size_t>(i)].second, random));
    if (first_q.empty()) {
      first_q.assign(q.begin(), q.begin() + heads * width);
      first_list = lists[0];
    }
    std::copy(first_q.begin(), first_q.end(), q.begin());
    lists[0] = first_list;
    std::vector<int32_t> flat(static_cast<size_t>(rows * topk), -1);
    std::vector<int32_t> counts;
    for (int64_t i = 0; i < rows; ++i) {
      const auto& list = lists[static_cast<size_t>(i)];
      std::copy(list.begin(), list.end(), flat.begin() + i * topk);
      counts.push_back(static_cast<int32_t>(list.size()));
    }
    const ops::Selection selection{.lists = backend.put_ints(flat, topk),
                                   .count = backend.put_ints(counts, 1).data};
    const float scale = 1.0F / 16;
    const Activation in = backend.put(q, heads * width);
    const Activation o = backend.poisoned(rows, heads * kv_lora);
    backend.ops().sparse_attention(in, placed.map, selection, cache.layer, heads, kv_lora, scale, o);
    const std::vector<float> found = backend.get(o);
    for (const float value : found)
      expect(std::isfinite(value), "rows ", rows, ": an output was not written");
    const int64_t checked = std::min<int64_t>(rows * heads, 160);
    std::vector<std::vector<double>> expected(static_cast<size_t>(checked));
    std::vector<int64_t> pick(static_cast<size_t>(checked));
    for (int64_t i = 0; i < checked; ++i) pick[static_cast<size_t>(i)] = i * rows * heads / checked;
    parallel(checked, [&](int64_t i) {
      const int64_t at = pick[static_cast<size_t>(i)];
      const auto row = static_cast<size_t>(at / heads);
      expected[static_cast<size_t>(i)] = attended(cache, q.data() + at * width, placed.sequences[row],
                                                  lists[row], kv_lora, static_cast<double>(scale));
    });
    std::vector<float> some;
    std::vector<double> all;
    for (int64_t i = 0; i < checked; ++i) {
      const int64_t at = pick[static_cast<size_t>(i)] * kv_lora;
      some.insert(some.end(), found.begin() + at, found.begin() + at + kv_lora);
      all.insert(all.end(), expected[static_cast<size_t>(i)].begin(), expected[static_cast<size_t>(i)].end());
    }
    const double error = relative_error(some, all);
    worst = std::max(worst, error);
    // Under bfloat16 probabilities, and values that FP8 rows widen to, are rounded too.
    expect(error < (backend.bf16() ? 6e-3 : 5e-6), "rows ", rows, ": error ", error);
    const std::vector<float> row0(found.begin(), found.begin() + heads * kv_lora);
    if (alone.empty()) alone = row0;
    expect_same_bits(alone, row0, cat("row 0 of ", rows));
    for (int round = 0; round < (rows == 6 || rows == 300 ? repetitions() : 0); ++round) {
      const ops::Arena::Scope scope(backend.arena());
      const Activation again = backend.poisoned(rows, heads * kv_lora);
      backend.ops().sparse_attention(in, placed.map, selection, cache.layer, heads, kv_lora, scale, again);
      expect_same_bits(backend.get(again), found, "a repetition");
    }
  }
  note(cat("worst error ", worst));
}

/// Scores by the definition, then the device's whole select() against the choice from them.
void check_select(ComputeDType dtype, ops::CacheFormat format, int64_t heads, int64_t dim, int64_t topk) {
  std::mt19937_64 random(std::random_device{}());
  Backend backend(dtype);
  const int64_t positions = 3000;
  const Filled keys = fill_cache(backend, format, 3, positions, dim, 0, random);
  std::vector<float> row0_scores;
  std::vector<float> first_q;
  std::vector<float> first_w;
  for (const int64_t rows : {1, 5, 130}) {
    backend.reset();
    std::vector<std::pair<int32_t, int32_t>> where;
    // Adjacent rows of a sequence ascend.
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t sequence = i * 3 / rows;
      const auto position = sequence == 0 ? positions - 1 - (rows - 1) / 3 + i : (i * 61) % (positions - 200);
      where.emplace_back(static_cast<int32_t>(sequence), static_cast<int32_t>(position));
    }
    for (int32_t sequence = 1; sequence < 3; ++sequence) {
      const auto first =
          std::find_if(where.begin(), where.end(), [&](const auto& w) { return w.first == sequence; });
      const auto last = std::find_if(first, where.end(), [&](const auto& w) { return w.first != sequence; });
      std::sort(first, last);
    }
    const Placed placed = place_rows(backend, keys, where);
    std::vector<float> q = backend.random_values(rows * heads * dim, 1.0, random);
    std::vector<float> w(static_cast<size_t>(rows * heads));
    std::normal_distribution<float> normal;
    for (float& value : w) value = normal(random);
    if (first_q.empty()) {
      first_q.assign(q.begin(), q.begin() + heads * dim);
      first_w.assign(w.begin(), w.begin() + heads);
    }
    std::copy(first_q.begin(), first_q.end(), q.begin());
    std::copy(first_w.begin(), first_w.end(), w.begin());
    const float scale = 1.0F / 64;
    const Activation in = backend.put(q, heads * dim);
    const Floats weights = backend.put_floats(w, heads);
    const int64_t stride = (positions + 63) / 64 * 64;
    const Floats scores = backend.poisoned_floats(rows, stride);
    ops::cuda::score_keys(in, weights, scale, placed.map, keys.layer, heads, 0, rows, scores.data, stride,
                          dtype, nullptr);
    check(cudaDeviceSynchronize(), "score_keys");
    const std::vector<float> found = backend.get(scores);
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<float> some;
      std::vector<double> expected;
      for (int64_t s = 0; s <= placed.positions[static_cast<size_t>(row)]; s += 7) {
        double sum = 0;
        const float* key = keys.row(placed.sequences[static_cast<size_t>(row)], s);
        for (int64_t h = 0; h < heads; ++h) {
          double dot = 0;
          for (int64_t d = 0; d < dim; ++d) {
            dot += static_cast<double>(q[static_cast<size_t>((row * heads + h) * dim + d)]) *
                   static_cast<double>(key[d]);
          }
          sum += static_cast<double>(scale) * static_cast<double>(w[static_cast<size_t>(row * heads + h)]) *
                 std::max(dot, 0.0);
        }
        expected.push_back(sum);
        some.push_back(found[static_cast<size_t>(row * stride + s)]);
      }
      const double error = relative_error(some, expected);
      expect(error < 1e-5, "row ", row, " of ", rows, ": error ", error);
      if (rows > 5) row += 9;
    }
    const int64_t seen = positions - 60;  // every first row sees so many
    const std::vector<float> first(found.begin(), found.begin() + seen);
    if (row0_scores.empty()) row0_scores = first;
    expect_same_bits(row0_scores, first, cat("scores of row 0 of ", rows));
    const ops::Selection out{
        .lists = backend.put_ints(std::vector<int32_t>(static_cast<size_t>(rows * topk), -7), topk),
        .count = backend.put_ints(std::vector<int32_t>(static_cast<size_t>(rows), -7), 1).data};
    backend.ops().select(in, weights, scale, placed.map, keys.layer, heads, topk, out);
    const std::vector<int32_t> lists = backend.get(out.lists);
    const std::vector<int32_t> counts = backend.get(Ints{out.count, rows, 1});
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<int32_t> expected(static_cast<size_t>(topk));
      const int64_t n = placed.positions[static_cast<size_t>(row)] + 1;
      const int64_t count = ops::cpu::select_topk(found.data() + row * stride, n, topk, expected.data());
      expect(counts[static_cast<size_t>(row)] == count, "row ", row, ": ", counts[static_cast<size_t>(row)],
             " of ", count, " selected");
      expect(std::equal(expected.begin(), expected.begin() + count, lists.begin() + row * topk), "row ", row,
             ": another selection");
    }
  }
}

/// The choice alone, on the same scores as the CPU's.
void check_largest(int64_t n, int64_t rows) {
  std::mt19937_64 random(std::random_device{}());
  Backend backend(ComputeDType::float32);
  const int64_t topk = 2048;
  for (const char* kind : {"normal", "ties", "zeros", "nan", "ascending", "few", "hot"}) {
    backend.reset();
    const std::string name(kind);
    std::vector<float> scores(static_cast<size_t>(rows * n));
    parallel_random(rows * n, random, [&](size_t first, size_t last, std::mt19937_64& own) {
      std::normal_distribution<float> normal;
      for (size_t i = first; i < last; ++i) {
        const float value = normal(own);
        if (name == "normal") scores[i] = value;
        if (name == "ties") scores[i] = std::floor(value * 2);
        if (name == "zeros") scores[i] = value < 3 ? (own() % 2 == 0 ? 0.0F : -0.0F) : value;
        if (name == "nan") scores[i] = own() % 3 == 0 ? std::nanf("") : value < 0 ? -1e30F * value : value;
        if (name == "ascending") scores[i] = static_cast<float>(i % static_cast<size_t>(n)) * 1e-3F;
        if (name == "few") scores[i] = own() % 997 == 0 ? 1.0F : -2.0F;
        if (name == "hot") scores[i] = value + (i % static_cast<size_t>(n) / 1500 % 7 == 3 ? 3.0F : 0.0F);
      }
    });
    std::vector<int32_t> positions;
    for (int64_t row = 0; row < rows; ++row) positions.push_back(static_cast<int32_t>(n - 1 - (row % 4) * 3));
    if (rows > 2) positions[2] = 100;
    const Floats in = backend.put_floats(scores, n);
    const ops::RowMap map{rows, backend.put_ints(positions, 1).data, nullptr, nullptr, 0, n};
    const ops::Selection out{
        .lists = backend.put_ints(std::vector<int32_t>(static_cast<size_t>(rows * topk), -7), topk),
        .count = backend.put_ints(std::vector<int32_t>(static_cast<size_t>(rows), -7), 1).data};
    ops::cuda::select_largest(in.data, n, map, 0, rows, topk, out, nullptr);
    check(cudaDeviceSynchronize(), "select_largest");
    const std::vector<int32_t> lists = backend.get(out.lists);
    const std::vector<int32_t> counts = backend.get(Ints{out.count, rows, 1});
    std::atomic<int64_t> wrong{0};
    parallel(rows, [&](int64_t row) {
      std::vector<int32_t> expected(static_cast<size_t>(topk));
      const int64_t count = ops::cpu::select_topk(
          scores.data() + row * n, positions[static_cast<size_t>(row)] + 1, topk, expected.data());
      const bool same = counts[static_cast<size_t>(row)] == count &&
                        std::equal(expected.begin(), expected.begin() + count, lists.begin() + row * topk);
      if (!same) ++wrong;
    });
    expect(wrong == 0, name, ": ", wrong, " rows have another selection than the CPU's");
  }
}

constexpr auto kBf16 = ComputeDType::bfloat16;
constexpr auto kF32 = ComputeDType::float32;
using Format = ops::CacheFormat;

const Register kAll[] = {
    {"attention bfloat16 8 heads", [] { check_attention(kBf16, Format::bfloat16, 8, 512, 64, 2048); }},
    {"attention bfloat16 16 heads", [] { check_attention(kBf16, Format::bfloat16, 16, 512, 64, 2048); }},
    {"attention bfloat16 64 heads", [] { check_attention(kBf16, Format::bfloat16, 64, 512, 64, 2048); }},
    {"attention fp8 8 heads", [] { check_attention(kBf16, Format::fp8_latent, 8, 512, 64, 2048); }},
    {"attention fp8 64 heads", [] { check_attention(kBf16, Format::fp8_latent, 64, 512, 64, 2048); }},
    {"attention bfloat16 3 heads", [] { check_attention(kBf16, Format::bfloat16, 3, 512, 64, 100); }},
    {"attention fp8 40 heads", [] { check_attention(kBf16, Format::fp8_latent, 40, 512, 64, 130); }},
    {"attention bfloat16 small", [] { check_attention(kBf16, Format::bfloat16, 8, 128, 32, 128); }},
    {"attention fp8 small", [] { check_attention(kBf16, Format::fp8_latent, 4, 160, 32, 64); }},
    {"attention float32", [] { check_attention(kF32, Format::float32, 8, 512, 64, 300); }},
    {"select bfloat16 fp8 keys", [] { check_select(kBf16, Format::fp8_keys, 32, 128, 2048); }},
    {"select bfloat16 keys", [] { check_select(kBf16, Format::bfloat16, 32, 128, 2048); }},
    {"select small", [] { check_select(kBf16, Format::fp8_keys, 8, 64, 128); }},
    {"select float32", [] { check_select(kF32, Format::float32, 8, 32, 16); }},
    {"largest of 4096", [] { check_largest(4096, 70); }},
    {"largest of 65536", [] { check_largest(65536, 5); }},
    {"largest of 65539", [] { check_largest(65539, 1); }},
    {"largest of 131072", [] { check_largest(131072, 4); }},
    {"largest of 262144", [] { check_largest(262144, 4); }},
    {"largest of 1048576", [] { check_largest(1048576, 3); }},
    {"largest of 131072, 300 rows", [] { check_largest(131072, 300); }},
};

}  // namespace
}  // namespace glint::gpu
