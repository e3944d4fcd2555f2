// Routing, the routed experts, and stored weights decoded value by value.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpu_support.h"
#include "ops/cpu/kernels.h"
#include "ops/cuda/decode_rows.h"

namespace glint::gpu {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

void check_routing(int64_t experts, int64_t chosen, int64_t n_group, int64_t topk_group) {
  std::mt19937_64 random(std::random_device{}());
  Backend backend(ComputeDType::bfloat16);
  const int64_t rows = 333;
  std::normal_distribution<float> normal;
  std::vector<float> logits(static_cast<size_t>(rows * experts));
  for (float& x : logits) x = std::round(normal(random) * 8) / 8;  // with ties
  logits[5] = std::nanf("");
  std::vector<float> bias(static_cast<size_t>(experts));
  for (float& x : bias) x = std::round(normal(random)) / 8;
  const DeviceArray<float> device_bias(bias);
  const ops::RouteParams params{.num_experts_per_tok = chosen,
                                .n_group = n_group,
                                .topk_group = topk_group,
                                .routed_scaling_factor = 2.5F};
  const Floats in = backend.put_floats(logits, experts);
  const Ints out = backend.put_ints(std::vector<int32_t>(static_cast<size_t>(rows * chosen), -7), chosen);
  const Floats weights = backend.poisoned_floats(rows, chosen);
  backend.ops().choose_experts(in, device_bias.data(), params, out);
  backend.ops().weigh_experts(in, device_bias.data(), params, out, weights);
  const std::vector<int32_t> found = backend.get(out);
  const std::vector<float> found_weights = backend.get(weights);
  for (int64_t row = 1; row < rows; ++row) {
    const float* x = logits.data() + row * experts;
    // The scores as the contract computes them, in float32, since ties are of float32 values.
    std::vector<float> scores(static_cast<size_t>(experts));
    for (size_t e = 0; e < scores.size(); ++e) scores[e] = 1.0F / (1.0F + std::exp(-x[e])) + bias[e];
    const int64_t size = experts / n_group;
    if (n_group > 1) {
      std::vector<std::pair<float, int64_t>> worth;
      for (int64_t g = 0; g < n_group; ++g) {
        std::vector<float> group(scores.begin() + g * size, scores.begin() + (g + 1) * size);
        std::partial_sort(group.begin(), group.begin() + 2, group.end(), std::greater<>());
        worth.emplace_back(-(group[0] + group[1]), g);
      }
      std::sort(worth.begin(), worth.end());
      for (size_t i = static_cast<size_t>(topk_group); i < worth.size(); ++i) {
        std::fill_n(scores.begin() + worth[i].second * size, size, -std::numeric_limits<float>::infinity());
      }
    }
    // Chosen scores are at least as large as all others (up to the last bit of exp), ascending, distinct.
    const int32_t* list = found.data() + row * chosen;
    float least = std::numeric_limits<float>::infinity();
    std::vector<bool> taken(static_cast<size_t>(experts));
    for (int64_t j = 0; j < chosen; ++j) {
      expect(list[j] >= 0 && list[j] < experts && (j == 0 || list[j] > list[j - 1]), "row ", row,
             ": not ascending");
      least = std::min(least, scores[static_cast<size_t>(list[j])]);
      taken[static_cast<size_t>(list[j])] = true;
    }
    for (int64_t e = 0; e < experts; ++e) {
      if (taken[static_cast<size_t>(e)]) continue;
      expect(scores[static_cast<size_t>(e)] <= least + 1e-6F, "row ", row, ": expert ", e, " was left out");
      // Equal inputs are equal scores: the lower index wins.
      for (int64_t j = 0; j < chosen; ++j) {
        if (std::isinf(scores[static_cast<size_t>(e)])) continue;  // of a group that was left out
        const bool equal =
            x[e] == x[list[j]] && bias[static_cast<size_t>(e)] == bias[static_cast<size_t>(list[j])];
        expect(!(equal && e < list[j]), "row ", row, ": a tie went to the higher index");
      }
    }
    double sum = 0;
    for (int64_t j = 0; j < chosen; ++j) sum += sigmoid(static_cast<double>(x[list[j]]));
    for (int64_t j = 0; j < chosen; ++j) {
      const double expected = sigmoid(static_cast<double>(x[list[j]])) / sum * 2.5;
      const auto value = static_cast<double>(found_weights[static_cast<size_t>(row * chosen + j)]);
      expect(std::abs(value - expected) < 1e-5, "row ", row, ": weight ", value, ", expected ", expected);
    }
  }
}

struct Experts {
  std::vector<TestWeight> gate, up, down;
  std::vector<ops::ExpertWeights> table;  // on the device's addresses
  std::unique_ptr<DeviceArray<ops::ExpertWeights>> device_table;
  std::unique_ptr<DeviceArray<uint8_t>> slab;  // the matrices, at equal distances, if they were to be
};

/// Moves the matrices into one slab, as loading lays them out.
void place_evenly(Experts& e) {
  const auto stride = [](const TestWeight& w) { return (w.data->size() + 255) / 256 * 256; };
  const size_t three = 2 * stride(e.gate[0]) + stride(e.down[0]);
  e.slab = std::make_unique<DeviceArray<uint8_t>>(std::vector<uint8_t>(e.gate.size() * three));
  uint8_t* next = e.slab->data();
  for (size_t i = 0; i < e.gate.size(); ++i) {
    for (TestWeight* w : {&e.gate[i], &e.up[i], &e.down[i]}) {
      check(cudaMemcpy(next, w->data->data(), w->data->size(), cudaMemcpyHostToDevice), "cudaMemcpy");
      w->device.data = next;
      next += stride(*w);
    }
  }
}

Experts make_experts(Backend& backend, WeightFormat format, int64_t count, int64_t hidden, int64_t inner,
                     bool even, std::mt19937_64& random) {
  Experts e;
  for (int64_t i = 0; i < count; ++i) {
    e.gate.push_back(random_weight(format, inner, hidden, random));
    e.up.push_back(random_weight(format, inner, hidden, random));
    e.down.push_back(random_weight(format, hidden, inner, random));
  }
  if (even) place_evenly(e);
  for (size_t i = 0; i < e.gate.size(); ++i)
    e.table.push_back({e.gate[i].device, e.up[i].device, e.down[i].device});
  e.device_table = std::make_unique<DeviceArray<ops::ExpertWeights>>(e.table);
  backend.tables()[e.table.data()] = reinterpret_cast<const Weight*>(e.device_table->data());
  return e;
}

/// One row through one expert, rounded where the contract rounds, times the factor.
std::vector<double> expected_part(const Experts& e, const double* x, size_t expert, double factor,
                                  int64_t hidden, int64_t inner, bool bf16, bool quantized) {
  const auto rounded = [&](double value) {
    return bf16 ? static_cast<double>(round_to_bf16(static_cast<float>(value))) : value;
  };
  std::vector<float> middle(static_cast<size_t>(inner));
  for (int64_t i = 0; i < inner; ++i) {
    double g = 0;
    double u = 0;
    for (int64_t k = 0; k < hidden; ++k) {
      g += x[k] * e.gate[expert].value(i, k);
      u += x[k] * e.up[expert].value(i, k);
    }
    g = rounded(g);
    middle[static_cast<size_t>(i)] = static_cast<float>(rounded(g / (1 + std::exp(-g)) * rounded(u)));
  }
  const std::vector<double> in =
      quantized ? fp8_activations(middle, inner) : std::vector<double>(middle.begin(), middle.end());
  std::vector<double> y(static_cast<size_t>(hidden));
  for (int64_t c = 0; c < hidden; ++c) {
    double sum = 0;
    for (int64_t i = 0; i < inner; ++i) sum += in[static_cast<size_t>(i)] * e.down[expert].value(c, i);
    y[static_cast<size_t>(c)] = factor * sum;
  }
  return y;
}

void check_experts(ComputeDType dtype, WeightFormat format, int64_t count, int64_t chosen, int64_t hidden,
                   int64_t inner, bool invariant = true, bool even = true) {
  std::mt19937_64 random(std::random_device{}());
  ops::cuda::CudaOptions options;
  options.batch_invariant = invariant;
  Backend backend(dtype, options);
  const Experts e = make_experts(backend, format, count, hidden, inner, even, random);
  const bool quantized = backend.bf16() && format == WeightFormat::fp8_block;
  std::vector<float> first_x;
  std::vector<float> alone;
  std::vector<int32_t> first_chosen;
  double worst = 0;
  for (const int64_t rows : {1, 2, 7, 40, 150, 700}) {
    backend.reset();
    std::vector<float> x = backend.random_values(rows * hidden, 1.0, random);
    if (first_x.empty()) first_x.assign(x.begin(), x.begin() + hidden);
    std::copy(first_x.begin(), first_x.end(), x.begin());
    std::vector<int32_t> experts;
    std::vector<float> factors;
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<int32_t> all(static_cast<size_t>(count));
      std::iota(all.begin(), all.end(), 0);
      std::shuffle(all.begin(), all.end(), random);
      if (row % 3 == 1) all[0] = 0, std::iota(all.begin(), all.end(), 0);  // some experts are crowded
      std::sort(all.begin(), all.begin() + chosen);
      if (row == 0 && first_chosen.empty()) first_chosen.assign(all.begin(), all.begin() + chosen);
      if (row == 0) std::copy(first_chosen.begin(), first_chosen.end(), all.begin());
      for (int64_t j = 0; j < chosen; ++j) {
        experts.push_back(all[static_cast<size_t>(j)]);
        factors.push_back(0.1F + 0.05F * static_cast<float>(j));
      }
    }
    const Activation in = backend.put(x, hidden);
    const Ints list = backend.put_ints(experts, chosen);
    const Floats weights = backend.put_floats(factors, chosen);
    const Floats y = backend.poisoned_floats(rows, hidden);
    backend.ops().experts(in, list, weights, e.table, y);
    const std::vector<float> found = backend.get(y);
    for (const float value : found)
      expect(std::isfinite(value), "rows ", rows, ": an output was not written");
    const int64_t checked = std::min<int64_t>(rows, hidden > 1000 ? 2 : 40);
    std::vector<std::vector<double>> expected(static_cast<size_t>(checked));
    const std::vector<double> seen =
        quantized ? fp8_activations(x, hidden) : std::vector<double>(x.begin(), x.end());
    std::vector<std::vector<double>> parts(static_cast<size_t>(checked * chosen));
    parallel(checked * chosen, [&](int64_t part) {
      const int64_t row = part / chosen * rows / checked;
      const auto pair = static_cast<size_t>(row * chosen + part % chosen);
      parts[static_cast<size_t>(part)] =
          expected_part(e, seen.data() + row * hidden, static_cast<size_t>(experts[pair]),
                        static_cast<double>(factors[pair]), hidden, inner, backend.bf16(), quantized);
    });
    for (int64_t i = 0; i < checked; ++i) {
      const int64_t row = i * rows / checked;
      std::vector<double>& sum = expected[static_cast<size_t>(i)];
      sum.assign(static_cast<size_t>(hidden), 0);
      for (int64_t j = 0; j < chosen; ++j) {
        const std::vector<double>& part = parts[static_cast<size_t>(i * chosen + j)];
        for (size_t c = 0; c < sum.size(); ++c) sum[c] += part[c];
      }
      const double error = relative_error({found.begin() + row * hidden, found.begin() + (row + 1) * hidden},
                                          expected[static_cast<size_t>(i)]);
      worst = std::max(worst, error);
      // Values on the edge of two bfloat16 or E4M3 numbers may fall either way.
      // In the default mode sums differ enough to fall on the other side now and then, which few columns feel
      // most.
      const double quantized_bound = invariant ? 1e-2 : inner < 1000 ? 8e-2 : 2e-2;
      expect(error < (quantized        ? quantized_bound
                      : backend.bf16() ? 4e-3
                                       : 3e-6),
             "rows ", rows, " row ", row, ": error ", error);
    }
    const std::vector<float> row0(found.begin(), found.begin() + hidden);
    if (alone.empty()) alone = row0;
    if (invariant) expect_same_bits(alone, row0, cat("row 0 of ", rows));
    for (int round = 0; round < (rows == 7 || rows == 700 ? repetitions() : 0); ++round) {
      const ops::Arena::Scope scope(backend.arena());
      const Floats again = backend.poisoned_floats(rows, hidden);
      backend.ops().experts(in, list, weights, e.table, again);
      expect_same_bits(backend.get(again), found, "a repetition");
    }
  }
  note(cat("worst error ", worst));
}

void check_decode(WeightFormat format) {
  std::mt19937_64 random(std::random_device{}());
  const int64_t shapes[][2] = {{1, 16}, {5, 48}, {576, 6144}, {129, 272}, {448, 512}};
  for (const auto& shape : shapes) {
    const TestWeight w = random_weight(format, shape[0], shape[1], random);
    const int64_t first = shape[0] / 3;
    const int64_t count = shape[0] - first;
    const DeviceArray<float> out(std::vector<float>(static_cast<size_t>(count * shape[1]), -1.0F));
    ops::cuda::decode_rows(w.device, first, count, out.data(), shape[1], nullptr);
    check(cudaDeviceSynchronize(), "decode_rows");
    const std::vector<float> found = out.host();
    std::vector<float> expected(found.size());
    ops::cpu::kernels(Isa::portable).decode_rows(w.host, first, count, expected.data(), shape[1]);
    expect_same_bits(found, expected, "decode_rows");
  }
}

constexpr auto kBf16 = ComputeDType::bfloat16;
constexpr auto kF32 = ComputeDType::float32;

const Register kAll[] = {
    {"routing 256 of which 8", [] { check_routing(256, 8, 1, 1); }},
    {"routing 96 of which 5 in groups", [] { check_routing(96, 5, 8, 3); }},
    {"experts fp8, full width", [] { check_experts(kBf16, WeightFormat::fp8_block, 12, 8, 6144, 2048); }},
    {"experts nvfp4, full width", [] { check_experts(kBf16, WeightFormat::nvfp4, 12, 8, 6144, 2048); }},
    {"experts fp8 256 small", [] { check_experts(kBf16, WeightFormat::fp8_block, 256, 8, 256, 128); }},
    {"experts default fp8, full width",
     [] { check_experts(kBf16, WeightFormat::fp8_block, 12, 8, 6144, 2048, false); }},
    {"experts default bf16", [] { check_experts(kBf16, WeightFormat::bf16, 16, 4, 512, 256, false); }},
    {"experts default fp8 odd", [] { check_experts(kBf16, WeightFormat::fp8_block, 7, 3, 272, 96, false); }},
    {"experts default nvfp4", [] { check_experts(kBf16, WeightFormat::nvfp4, 12, 8, 544, 288, false); }},
    {"experts default nvfp4, full width",
     [] { check_experts(kBf16, WeightFormat::nvfp4, 12, 8, 6144, 2048, false); }},
    {"experts default fp8, anywhere",
     [] { check_experts(kBf16, WeightFormat::fp8_block, 7, 3, 512, 256, false, false); }},
    {"experts bf16", [] { check_experts(kBf16, WeightFormat::bf16, 16, 4, 512, 256); }},
    {"experts nvfp4", [] { check_experts(kBf16, WeightFormat::nvfp4, 32, 8, 512, 256); }},
    {"experts fp8 odd", [] { check_experts(kBf16, WeightFormat::fp8_block, 7, 3, 272, 96); }},
    {"experts float32 fp8", [] { check_experts(kF32, WeightFormat::fp8_block, 8, 2, 256, 96); }},
    {"experts float32 nvfp4", [] { check_experts(kF32, WeightFormat::nvfp4, 8, 2, 256, 96); }},
    {"decode_rows f32", [] { check_decode(WeightFormat::f32); }},
    {"decode_rows bf16", [] { check_decode(WeightFormat::bf16); }},
    {"decode_rows fp8", [] { check_decode(WeightFormat::fp8_block); }},
    {"decode_rows nvfp4", [] { check_decode(WeightFormat::nvfp4); }},
};

}  // namespace
}  // namespace glint::gpu
