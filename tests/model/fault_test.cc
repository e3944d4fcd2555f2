// One thing broken at a time: each must turn a golden red, or the goldens prove nothing about it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/numeric.h"
#include "golden_support.h"
#include "ops/cpu/cpu_ops.h"

namespace glint::testing {
namespace {

// How many of the golden's bounds the broken model misses, and how far the logits are off.
size_t faults_with(const char* name, const std::function<void(ForwardRules&, ModelWeights&)>& change) {
  const GoldenCase& test = golden_case(name);
  const auto model = open_model(golden_checkpoint(test), change);
  return golden_faults(test, run_trace(model, golden_options(test))).size();
}

size_t faults_with_rules(const std::function<void(ForwardRules&)>& change) {
  return faults_with("micro", [&](ForwardRules& rules, ModelWeights&) { change(rules); });
}

TEST(Fault, NothingBrokenIsGreen) {
  EXPECT_EQ(faults_with_rules([](ForwardRules&) {}), 0U);
}

TEST(Fault, RopeHalfSplitInTheIndexer) {
  EXPECT_GT(faults_with_rules([](ForwardRules& rules) { rules.indexer_rope = ops::RopePairs::half_split; }),
            0U);
}

TEST(Fault, RopeHalfSplitInTheAttention) {
  EXPECT_GT(faults_with_rules([](ForwardRules& rules) { rules.rope = ops::RopePairs::half_split; }), 0U);
}

TEST(Fault, KNormAsRmsNorm) {
  EXPECT_GT(faults_with_rules([](ForwardRules& rules) { rules.index_norm_subtracts_mean = false; }), 0U);
}

TEST(Fault, BiasedRoutingWeights) {
  EXPECT_GT(faults_with_rules([](ForwardRules& rules) { rules.route.weights_from_biased_scores = true; }),
            0U);
}

TEST(Fault, RoutedScalingLeftOut) {
  EXPECT_GT(faults_with_rules([](ForwardRules& rules) { rules.route.routed_scaling_factor = 1.0F; }), 0U);
}

TEST(Fault, ScheduleWithoutThePlusOne) {
  // max(i - offset, 0) % freq would make layers {0..3, 7} full; the weights say {0, 1, 2, 6}. Where the wrong
  // schedule sees a shared layer, the list of the nearest lower full layer is used.
  EXPECT_GT(faults_with_rules([](ForwardRules& rules) { rules.index_source = {0, 1, 2, 2, 2, 2, 2, 2}; }),
            0U);
}

TEST(Fault, PreNormHiddenIntoTheMtpLayer) {
  const size_t faults =
      faults_with_rules([](ForwardRules& rules) { rules.mtp_carries_normed_hidden = false; });
  EXPECT_GT(faults, 0U);
}

TEST(Fault, SoftmaxScaleOfTheNopePartAlone) {
  EXPECT_GT(faults_with("micro",
                        [](ForwardRules& rules, ModelWeights& weights) {
                          const auto nope = static_cast<float>(weights.checkpoint->config().qk_nope_head_dim);
                          rules.softmax_scale = 1.0F / std::sqrt(nope);
                        }),
            0U);
}

TEST(Fault, RawLatentCachedAndReadAsIfNormed) {
  EXPECT_GT(faults_with_rules([](ForwardRules& rules) { rules.cache_normed_latent = false; }), 0U);
}

TEST(Fault, LatentNormsWithTheClassDefaultEps) {
  EXPECT_GT(faults_with_rules([](ForwardRules& rules) { rules.latent_norm_eps = 1e-6F; }), 0U);
}

// The stand-in's uniform weights give every full block the same largest value and so the same scale: a
// transposed grid would not show. So in every second block the codes are halved and the scale doubled, which
// keeps the values (but for the last bit of a few subnormal codes) and makes the grid uneven.
struct UnevenBlocks {
  std::vector<uint8_t> codes;
  std::vector<float> scales;

  explicit UnevenBlocks(const Weight& w)
      : codes(static_cast<size_t>(w.rows * w.cols)), scales(grid_rows(w) * grid_cols(w)) {
    std::memcpy(codes.data(), w.data, codes.size());
    std::memcpy(scales.data(), w.scale, scales.size() * sizeof(float));
    const auto cols = static_cast<size_t>(w.cols);
    for (size_t i = 0; i < codes.size(); ++i) {
      if (uneven(i / cols / 128, i % cols / 128)) codes[i] = float_to_e4m3(e4m3_to_float(codes[i]) / 2);
    }
    for (size_t i = 0; i < scales.size(); ++i) {
      if (uneven(i / grid_cols(w), i % grid_cols(w))) scales[i] *= 2;
    }
  }
  static size_t grid_rows(const Weight& w) { return static_cast<size_t>((w.rows + 127) / 128); }
  static size_t grid_cols(const Weight& w) { return static_cast<size_t>((w.cols + 127) / 128); }
  static bool uneven(size_t row, size_t col) { return (row + col) % 2 == 1 || row % 5 == 0; }
};

size_t faults_with_uneven_blocks(bool transpose) {
  std::optional<UnevenBlocks> uneven;
  return faults_with("geometry-fp8", [&](ForwardRules&, ModelWeights& weights) {
    Weight& w = weights.layers[4].q_b_proj;  // [2048, 256]: a grid of [16, 2]
    uneven.emplace(w);
    if (transpose) {
      const std::vector<float> stored = uneven->scales;
      const size_t rows = UnevenBlocks::grid_rows(w);
      const size_t cols = UnevenBlocks::grid_cols(w);
      for (size_t i = 0; i < stored.size(); ++i) uneven->scales[i % cols * rows + i / cols] = stored[i];
    }
    w.data = uneven->codes.data();
    w.scale = uneven->scales.data();
  });
}

TEST(Fault, OneBlockScaleTransposed) {
  EXPECT_EQ(faults_with_uneven_blocks(false), 0U);
  EXPECT_GT(faults_with_uneven_blocks(true), 0U);
}

TEST(Fault, NibblesSwapped) {
  std::vector<uint8_t> swapped;
  EXPECT_GT(faults_with("micro-nvfp4",
                        [&](ForwardRules&, ModelWeights& weights) {
                          Weight& w = weights.layers[4].experts[3].up;
                          const auto* pairs = static_cast<const uint8_t*>(w.data);
                          for (int64_t i = 0; i < w.rows * w.cols / 2; ++i) {
                            swapped.push_back(static_cast<uint8_t>(pairs[i] << 4 | pairs[i] >> 4));
                          }
                          w.data = swapped.data();
                        }),
            0U);
}

TEST(Fault, GateScaleUsedForUp) {
  // Only a checkpoint whose two global scales differ can show this; the stand-ins share them, so one is
  // changed.
  const auto halve = [](ForwardRules&, ModelWeights& weights) {
    weights.layers[4].experts[3].up.global_scale *= 0.5F;
  };
  EXPECT_GT(faults_with("micro-nvfp4", halve), 0U);
}

TEST(Fault, KNormEpsShowsOnSmallInputs) {
  // eps 1e-6 against the config's 1e-5 is invisible in the goldens, whose index keys are large.
  ThreadPool pool(1);
  std::vector<std::byte> slab(1 << 16);
  const auto address = (reinterpret_cast<uintptr_t>(slab.data()) + 255) / 256 * 256;
  ops::Arena arena(reinterpret_cast<std::byte*>(address), 1 << 15);
  const auto ops = ops::cpu::make_cpu_ops(pool, best_isa(), ops::ComputeDType::float32, arena);
  const int64_t n = 128;
  std::vector<float> x(n), weight(n), bias(n), y(n);
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    x[at] = 1e-3F * static_cast<float>(i % 7 - 3);
    weight[at] = 1.0F + 0.01F * static_cast<float>(i % 5);
    bias[at] = 0.1F * static_cast<float>(i % 3);
  }
  const auto view = [n](std::vector<float>& values) { return ops::Activation{values.data(), 1, n, n}; };
  const float eps =
      rules_of(load_model_config(golden_file(golden_case("micro")).parent_path())).index_norm_eps;
  ops->layer_norm(view(x), weight.data(), bias.data(), eps, view(y));
  const auto expected = [&](size_t i, double epsilon) {
    double mean = 0, variance = 0;
    for (const float value : x) mean += static_cast<double>(value) / n;
    for (const float value : x)
      variance += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean) / n;
    return static_cast<double>(weight[i]) * (static_cast<double>(x[i]) - mean) /
               std::sqrt(variance + epsilon) +
           static_cast<double>(bias[i]);
  };
  double right = 0, wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    right = std::max(right, std::abs(static_cast<double>(y[i]) - expected(i, 1e-6)));
    wrong = std::max(wrong, std::abs(static_cast<double>(y[i]) - expected(i, 1e-5)));
  }
  EXPECT_LT(right, 1e-6);
  EXPECT_GT(wrong, 1e-2);
}

}  // namespace
}  // namespace glint::testing
