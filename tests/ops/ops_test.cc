// Every CPU operation against plain float64 loops, and the rule that a row never depends on its neighbours.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "base/numeric.h"
#include "ops/cpu/cpu_ops.h"

namespace glint::ops::cpu {
namespace {

/// Random rows with the operations of one backend around them.
class OpsTest : public ::testing::TestWithParam<ComputeDType> {
 protected:
  OpsTest() : slab_(size_t{64} << 20), arena_(aligned(), (int64_t{64} << 20) - 512), pool_(2) {
    ops_ = make_cpu_ops(pool_, best_isa(), GetParam(), arena_);
  }
  std::byte* aligned() {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(slab_.data()) + 255) / 256 * 256);
  }

  std::vector<float> random_floats(int64_t count, float spread = 1.0F) {
    std::vector<float> values(static_cast<size_t>(count));
    std::uniform_real_distribution<float> uniform(-spread, spread);
    for (float& value : values) {
      value = uniform(random_);
      if (bf16()) value = round_to_bf16(value);
    }
    return values;
  }
  [[nodiscard]] static bool bf16() { return GetParam() == ComputeDType::bfloat16; }
  /// What an Activation's rounding may add to a float32 result, relative to it.
  [[nodiscard]] static double grid() { return bf16() ? 1.0 / 256 : 0.0; }

  static Activation view(std::vector<float>& values, int64_t cols) {
    return {values.data(), static_cast<int64_t>(values.size()) / cols, cols, cols};
  }
  static Floats float_view(std::vector<float>& values, int64_t cols) {
    return {values.data(), static_cast<int64_t>(values.size()) / cols, cols, cols};
  }
  static void expect_near(const std::vector<float>& found, const std::vector<double>& expected,
                          double bound) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(found[i]), expected[i], bound + grid() * std::abs(expected[i]))
          << "at " << i;
    }
  }

  std::mt19937 random_{11};
  std::vector<std::byte> slab_;
  Arena arena_;
  ThreadPool pool_;
  std::unique_ptr<Ops> ops_;
};

INSTANTIATE_TEST_SUITE_P(Types, OpsTest, ::testing::Values(ComputeDType::float32, ComputeDType::bfloat16),
                         [](const auto& instance) {
                           return instance.param == ComputeDType::float32 ? "float32" : "bfloat16";
                         });

double at(const std::vector<float>& values, int64_t index) {
  return static_cast<double>(values[static_cast<size_t>(index)]);
}

TEST_P(OpsTest, RmsNorm) {
  const int64_t n = 77;
  std::vector<float> x = random_floats(3 * n, 1e-3F);  // small, so that eps counts
  const std::vector<float> weight = random_floats(n);
  std::vector<float> y(x.size(), NAN);
  ops_->rms_norm(view(x, n), weight.data(), 1e-5F, view(y, n));
  std::vector<double> expected;
  for (int64_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += at(x, row * n + i) * at(x, row * n + i);
    const double factor = 1 / std::sqrt(sum / n + 1e-5);
    for (int64_t i = 0; i < n; ++i) expected.push_back(at(weight, i) * at(x, row * n + i) * factor);
  }
  expect_near(y, expected, 1e-6);
}

TEST_P(OpsTest, LayerNorm) {
  const int64_t n = 33;
  std::vector<float> x = random_floats(2 * n, 1e-3F);
  for (float& value : x) value += 0.5F;  // a mean that an RMS norm would not take away
  const std::vector<float> weight = random_floats(n);
  const std::vector<float> bias = random_floats(n);
  std::vector<float> y(x.size(), NAN);
  ops_->layer_norm(view(x, n), weight.data(), bias.data(), 1e-6F, view(y, n));
  std::vector<double> expected;
  for (int64_t row = 0; row < 2; ++row) {
    double mean = 0;
    double variance = 0;
    for (int64_t i = 0; i < n; ++i) mean += at(x, row * n + i) / n;
    for (int64_t i = 0; i < n; ++i) variance += std::pow(at(x, row * n + i) - mean, 2) / n;
    for (int64_t i = 0; i < n; ++i) {
      expected.push_back(at(weight, i) * (at(x, row * n + i) - mean) / std::sqrt(variance + 1e-6) +
                         at(bias, i));
    }
  }
  expect_near(y, expected, 2e-5);  // x near 0.5 has a float32 step of 6e-8 against a deviation of 6e-4
}

TEST_P(OpsTest, RopeTurnsPairsAndLeavesTheRest) {
  const int64_t heads = 3;
  const int64_t head_dim = 20;
  const int64_t first = 8;
  const int64_t dim = 12;
  const std::vector<int32_t> position = {0, 5, 1048575};
  for (const RopePairs pairs : {RopePairs::interleaved, RopePairs::half_split}) {
    std::vector<float> x = random_floats(3 * heads * head_dim);
    std::vector<double> expected(x.begin(), x.end());
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < dim / 2; ++i) {
          // The angle is one float32 product by definition; everything after it is exact here.
          const float inverse = 1.0F / std::pow(8e6F, static_cast<float>(2 * i) / static_cast<float>(dim));
          const double angle =
              static_cast<double>(static_cast<float>(position[static_cast<size_t>(row)]) * inverse);
          const int64_t base = (row * heads + h) * head_dim + first;
          const int64_t a = base + (pairs == RopePairs::interleaved ? 2 * i : i);
          const int64_t b = base + (pairs == RopePairs::interleaved ? 2 * i + 1 : i + dim / 2);
          expected[static_cast<size_t>(a)] = at(x, a) * std::cos(angle) - at(x, b) * std::sin(angle);
          expected[static_cast<size_t>(b)] = at(x, b) * std::cos(angle) + at(x, a) * std::sin(angle);
        }
      }
    }
    ops_->rope(view(x, heads * head_dim), heads, head_dim, first, dim, 8e6, pairs, position.data());
    expect_near(x, expected, bf16() ? 4e-3 : 1e-6);
  }
}

Weight f32_weight(const std::vector<float>& values, int64_t rows, int64_t cols) {
  return {.format = WeightFormat::f32, .rows = rows, .cols = cols, .data = values.data()};
}

TEST_P(OpsTest, AbsorbAndExpandEqualTheMaterialisedForm) {
  const int64_t heads = 3, nope = 10, rope = 4, v = 7, lora = 24, rows = 5;
  std::vector<float> kv_b = random_floats(heads * (nope + v) * lora);
  const Weight w = f32_weight(kv_b, heads * (nope + v), lora);
  std::vector<float> q = random_floats(rows * heads * (nope + rope));
  std::vector<float> y(static_cast<size_t>(rows * heads * (lora + rope)), NAN);
  ops_->absorb_query(view(q, heads * (nope + rope)), w, heads, nope, rope, v, view(y, heads * (lora + rope)));
  std::vector<double> expected;
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t from = (t * heads + h) * (nope + rope);
      for (int64_t c = 0; c < lora; ++c) {
        double sum = 0;
        for (int64_t i = 0; i < nope; ++i) sum += at(q, from + i) * at(kv_b, (h * (nope + v) + i) * lora + c);
        expected.push_back(sum);
      }
      for (int64_t i = 0; i < rope; ++i) expected.push_back(at(q, from + nope + i));
    }
  }
  expect_near(y, expected, 1e-5);

  std::vector<float> o = random_floats(rows * heads * lora);
  std::vector<float> out(static_cast<size_t>(rows * heads * v), NAN);
  ops_->expand_value(view(o, heads * lora), w, heads, nope, v, view(out, heads * v));
  expected.clear();
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < v; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < lora; ++c) {
          sum += at(o, (t * heads + h) * lora + c) * at(kv_b, (h * (nope + v) + nope + i) * lora + c);
        }
        expected.push_back(sum);
      }
    }
  }
  expect_near(out, expected, 1e-5);
}

/// A cache of one layer with pages in a shuffled order, and two sequences in it.
struct TestCache {
  TestCache(int64_t width, CacheFormat format, int64_t tokens, std::mt19937& random) {
    const int64_t pages_per_sequence = (tokens + kPageTokens - 1) / kPageTokens;
    layer.width = width;
    layer.format = format;
    layer.row_bytes = width * (format == CacheFormat::float32 ? 4 : 2);
    layer.page_bytes = layer.row_bytes * kPageTokens + 64;  // pages do not touch
    memory.resize(static_cast<size_t>(layer.page_bytes * pages_per_sequence * 2));
    layer.base = memory.data();
    for (int32_t page = 0; page < 2 * pages_per_sequence; ++page) pages.push_back(page);
    std::shuffle(pages.begin(), pages.end(), random);
    stride = pages_per_sequence;
  }
  CacheLayer layer;
  std::vector<std::byte> memory;
  std::vector<int32_t> pages;
  int64_t stride = 0;
};

TEST_P(OpsTest, SelectionAndAttentionOverAPagedCache) {
  const int64_t tokens = 150, heads = 5, dim = 12, topk = 40, lora = 16, rope = 6, attention_heads = 3;
  const CacheFormat format = bf16() ? CacheFormat::bfloat16 : CacheFormat::float32;
  TestCache keys(dim, format, tokens, random_);
  TestCache latents(lora + rope, format, tokens, random_);
  latents.pages = keys.pages;
  // All rows of both sequences.
  std::vector<int32_t> position, sequence;
  for (int32_t s = 0; s < 2; ++s) {
    for (int32_t p = 0; p < tokens; ++p) {
      position.push_back(p);
      sequence.push_back(s);
    }
  }
  const auto rows = static_cast<int64_t>(position.size());
  const RowMap map{rows, position.data(), sequence.data(), keys.pages.data(), keys.stride, tokens};
  std::vector<float> k = random_floats(rows * dim);
  std::vector<float> latent = random_floats(rows * (lora + rope));
  std::vector<float> q = random_floats(rows * heads * dim);
  std::vector<float> w = random_floats(rows * heads);
  std::vector<float> query = random_floats(rows * attention_heads * (lora + rope));
  ops_->write_cache(view(k, dim), map, keys.layer);
  ops_->write_cache(view(latent, lora + rope), map, latents.layer);
  std::vector<int32_t> lists(static_cast<size_t>(rows * topk), -1);
  std::vector<int32_t> count(static_cast<size_t>(rows), -1);
  const Selection selection{{lists.data(), rows, topk}, count.data()};
  ops_->select(view(q, heads * dim), float_view(w, heads), 0.125F, map, keys.layer, heads, topk, selection);
  std::vector<float> o(static_cast<size_t>(rows * attention_heads * lora), NAN);
  ops_->sparse_attention(view(query, attention_heads * (lora + rope)), map, selection, latents.layer,
                         attention_heads, lora, 0.25F, view(o, attention_heads * lora));

  std::vector<double> expected_o;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t start = row - position[static_cast<size_t>(row)];  // the sequence's first row
    const int64_t visible = row - start + 1;
    std::vector<double> score(static_cast<size_t>(visible), 0.0);
    for (int64_t s = 0; s < visible; ++s) {
      for (int64_t h = 0; h < heads; ++h) {
        double dot = 0;
        for (int64_t i = 0; i < dim; ++i)
          dot += at(q, (row * heads + h) * dim + i) * at(k, (start + s) * dim + i);
        score[static_cast<size_t>(s)] += 0.125 * at(w, row * heads + h) * std::max(dot, 0.0);
      }
    }
    // Every score that is left out is no larger than every one that is taken.
    const int32_t* list = lists.data() + row * topk;
    const int64_t taken = count[static_cast<size_t>(row)];
    ASSERT_EQ(taken, std::min(visible, topk));
    std::vector<bool> chosen(static_cast<size_t>(visible), false);
    double worst = INFINITY;
    for (int64_t i = 0; i < taken; ++i) {
      ASSERT_TRUE(list[i] >= 0 && list[i] < visible && (i == 0 || list[i] > list[i - 1]));
      chosen[static_cast<size_t>(list[i])] = true;
      worst = std::min(worst, score[static_cast<size_t>(list[i])]);
    }
    for (int64_t s = 0; s < visible; ++s) {
      ASSERT_TRUE(chosen[static_cast<size_t>(s)] || score[static_cast<size_t>(s)] <= worst + 1e-6);
    }
    // Attention over the list that was really chosen.
    for (int64_t h = 0; h < attention_heads; ++h) {
      std::vector<double> p;
      double sum = 0;
      for (int64_t i = 0; i < taken; ++i) {
        double dot = 0;
        for (int64_t c = 0; c < lora + rope; ++c) {
          dot += at(query, (row * attention_heads + h) * (lora + rope) + c) *
                 at(latent, (start + list[i]) * (lora + rope) + c);
        }
        p.push_back(std::exp(0.25 * dot));
        sum += p.back();
      }
      for (int64_t c = 0; c < lora; ++c) {
        double value = 0;
        for (int64_t i = 0; i < taken; ++i) {
          value += p[static_cast<size_t>(i)] / sum * at(latent, (start + list[i]) * (lora + rope) + c);
        }
        expected_o.push_back(value);
      }
    }
  }
  expect_near(o, expected_o, 2e-6);
}

// The two FP8 rows, byte by byte, against their definition.
TEST_P(OpsTest, Fp8CacheRowsHaveTheirExactLayout) {
  const int64_t lora = 200, rope = 6, dim = 20;  // a second tile of 72 values
  std::vector<int32_t> position = {0, 63, 64};
  std::vector<int32_t> sequence = {0, 0, 0};
  std::vector<int32_t> pages = {1, 0};
  const RowMap map{3, position.data(), sequence.data(), pages.data(), 2, 65};
  std::vector<float> x = random_floats(3 * (lora + rope), 3.0F);
  std::fill(x.begin(), x.begin() + 128, 0.0F);  // a tile of zeros
  CacheLayer latent{.row_bytes = lora + 8 + 2 * rope,
                    .width = lora + rope,
                    .quantized = lora,
                    .format = CacheFormat::fp8_latent};
  latent.page_bytes = latent.row_bytes * kPageTokens;
  std::vector<std::byte> memory(static_cast<size_t>(2 * latent.page_bytes), std::byte{0xAA});
  latent.base = memory.data();
  ops_->write_cache(view(x, lora + rope), map, latent);
  std::vector<float> k = random_floats(3 * dim);
  CacheLayer keys{.row_bytes = dim, .width = dim, .format = CacheFormat::fp8_keys};
  keys.page_bytes = kPageTokens * (dim + 4);
  std::vector<std::byte> key_memory(static_cast<size_t>(2 * keys.page_bytes), std::byte{0xAA});
  keys.base = key_memory.data();
  ops_->write_cache(view(k, dim), map, keys);
  for (int64_t row = 0; row < 3; ++row) {
    const int64_t page = pages[static_cast<size_t>(position[static_cast<size_t>(row)] / 64)];
    const int64_t slot = position[static_cast<size_t>(row)] % 64;
    const std::byte* at_row = memory.data() + page * latent.page_bytes + slot * latent.row_bytes;
    for (int64_t tile = 0; tile < 2; ++tile) {
      const int64_t count = tile == 0 ? 128 : lora - 128;
      float largest = 0;
      for (int64_t i = 0; i < count; ++i) {
        largest = std::max(largest, std::abs(x[static_cast<size_t>(row * (lora + rope) + tile * 128 + i)]));
      }
      const float scale = std::max(largest / 448.0F, 1.17549435e-38F);
      ASSERT_EQ(load_unaligned<float>(at_row + lora + tile * 4), scale);
      for (int64_t i = 0; i < count; ++i) {
        const float value = x[static_cast<size_t>(row * (lora + rope) + tile * 128 + i)];
        ASSERT_EQ(static_cast<uint8_t>(at_row[tile * 128 + i]), float_to_e4m3(value / scale));
      }
    }
    for (int64_t i = 0; i < rope; ++i) {
      ASSERT_EQ(load_unaligned<uint16_t>(at_row + lora + 8 + 2 * i),
                float_to_bf16(x[static_cast<size_t>(row * (lora + rope) + lora + i)]));
    }
    float largest = 0;
    for (int64_t i = 0; i < dim; ++i)
      largest = std::max(largest, std::abs(k[static_cast<size_t>(row * dim + i)]));
    const auto scale =
        static_cast<float>(std::exp2(std::ceil(std::log2(static_cast<double>(largest / 448.0F)))));
    const std::byte* key_page = key_memory.data() + page * keys.page_bytes;
    ASSERT_EQ(load_unaligned<float>(key_page + 64 * dim + 4 * slot), scale);
    for (int64_t i = 0; i < dim; ++i) {
      ASSERT_EQ(static_cast<uint8_t>(key_page[slot * dim + i]),
                float_to_e4m3(k[static_cast<size_t>(row * dim + i)] / scale));
    }
  }
}

TEST_P(OpsTest, RoutingUsesTheBiasForTheChoiceAlone) {
  const int64_t experts = 12, rows = 40;
  std::vector<float> logits = random_floats(rows * experts, 3.0F);
  const std::vector<float> bias = random_floats(experts, 0.3F);
  for (const int64_t groups : {1, 3}) {
    const RouteParams params{.num_experts_per_tok = 3,
                             .n_group = groups,
                             .topk_group = groups == 1 ? 1 : 2,
                             .norm_topk_prob = true,
                             .routed_scaling_factor = 2.5F};
    std::vector<int32_t> chosen(static_cast<size_t>(rows * 3), -1);
    std::vector<float> weights(static_cast<size_t>(rows * 3), NAN);
    ops_->choose_experts(float_view(logits, experts), bias.data(), params, {chosen.data(), rows, 3});
    ops_->weigh_experts(float_view(logits, experts), bias.data(), params, {chosen.data(), rows, 3},
                        float_view(weights, 3));
    for (int64_t row = 0; row < rows; ++row) {
      const auto sigmoid = [&](int64_t e) { return 1 / (1 + std::exp(-at(logits, row * experts + e))); };
      const auto biased = [&](int64_t e) { return sigmoid(e) + at(bias, e); };
      std::vector<int64_t> group_order(static_cast<size_t>(groups));
      std::iota(group_order.begin(), group_order.end(), 0);
      const int64_t size = experts / groups;
      const auto worth = [&](int64_t g) {
        std::vector<double> scores;
        for (int64_t e = g * size; e < (g + 1) * size; ++e) scores.push_back(biased(e));
        std::sort(scores.rbegin(), scores.rend());
        return scores[0] + scores[1];
      };
      std::sort(group_order.begin(), group_order.end(),
                [&](int64_t a, int64_t b) { return worth(a) > worth(b); });
      std::vector<int32_t> eligible;
      for (int64_t g = 0; g < params.topk_group; ++g) {
        for (int64_t e = 0; e < size; ++e) {
          eligible.push_back(static_cast<int32_t>(group_order[static_cast<size_t>(g)] * size + e));
        }
      }
      std::sort(eligible.begin(), eligible.end(),
                [&](int32_t a, int32_t b) { return biased(a) > biased(b); });
      eligible.resize(3);
      std::sort(eligible.begin(), eligible.end());
      double sum = 0;
      for (const int32_t e : eligible) sum += sigmoid(e);
      for (int64_t j = 0; j < 3; ++j) {
        const int32_t e = eligible[static_cast<size_t>(j)];
        ASSERT_EQ(chosen[static_cast<size_t>(row * 3 + j)], e);
        ASSERT_NEAR(at(weights, row * 3 + j), 2.5 * sigmoid(e) / sum, 1e-6);
      }
    }
  }
}

TEST_P(OpsTest, EqualBiasedScoresGoToTheLowestExpert) {
  std::vector<float> logits(6, 0.25F);
  const std::vector<float> bias(6, 0.0F);
  const RouteParams params{.num_experts_per_tok = 2};
  std::vector<int32_t> chosen(2, -1);
  ops_->choose_experts(float_view(logits, 6), bias.data(), params, {chosen.data(), 1, 2});
  EXPECT_EQ(chosen, (std::vector<int32_t>{0, 1}));
}

TEST_P(OpsTest, ExpertsSumInTheOrderOfTheList) {
  const int64_t width = 24, inner = 16, experts = 5, rows = 37, k = 2;
  std::vector<std::vector<float>> values;
  std::vector<ExpertWeights> table;
  for (int64_t e = 0; e < experts; ++e) {
    for (int part = 0; part < 3; ++part) values.push_back(random_floats(width * inner, 0.3F));
  }
  for (int64_t e = 0; e < experts; ++e) {
    const auto base = static_cast<size_t>(3 * e);
    table.push_back({f32_weight(values[base], inner, width), f32_weight(values[base + 1], inner, width),
                     f32_weight(values[base + 2], width, inner)});
  }
  std::vector<float> x = random_floats(rows * width);
  std::vector<int32_t> chosen;
  for (int64_t row = 0; row < rows; ++row) {
    const auto first = static_cast<int32_t>(random_() % 4);  // expert 4 stays without rows now and then
    chosen.push_back(first);
    chosen.push_back(first + 1);
  }
  std::vector<float> weights = random_floats(rows * k);
  std::vector<float> y(static_cast<size_t>(rows * width), NAN);
  ops_->experts(view(x, width), {chosen.data(), rows, k}, float_view(weights, k), table,
                float_view(y, width));
  const auto rounded = [](double value) {
    return bf16() ? static_cast<double>(round_to_bf16(static_cast<float>(value))) : value;
  };
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t n = 0; n < width; ++n) {
      double sum = 0;
      for (int64_t j = 0; j < k; ++j) {
        const auto base = static_cast<size_t>(3 * chosen[static_cast<size_t>(row * k + j)]);
        for (int64_t i = 0; i < inner; ++i) {
          double gate = 0;
          double up = 0;
          for (int64_t c = 0; c < width; ++c) {
            gate += at(values[base], i * width + c) * at(x, row * width + c);
            up += at(values[base + 1], i * width + c) * at(x, row * width + c);
          }
          const double act = rounded(rounded(gate) / (1 + std::exp(-rounded(gate))) * rounded(up));
          sum += at(weights, row * k + j) * at(values[base + 2], n * inner + i) * act;
        }
      }
      // A value near a rounding border may land on either side: one step of one inner value.
      ASSERT_NEAR(at(y, row * width + n), sum, bf16() ? 2e-3 : 2e-6);
    }
  }
  // A row alone is the same row in the batch, bit for bit.
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<float> alone(static_cast<size_t>(width), NAN);
    std::vector<float> one(x.begin() + row * width, x.begin() + (row + 1) * width);
    ops_->experts(view(one, width), {chosen.data() + row * k, 1, k}, {weights.data() + row * k, 1, k, k},
                  table, float_view(alone, width));
    ASSERT_EQ(std::memcmp(alone.data(), y.data() + row * width, static_cast<size_t>(width) * 4), 0)
        << "row " << row;
  }
}

TEST_P(OpsTest, TheIndexerKeepsToItsBudgetWhateverTheContext) {
  const int64_t tokens = 150, heads = 5, dim = 12, topk = 40;
  TestCache keys(dim, bf16() ? CacheFormat::bfloat16 : CacheFormat::float32, tokens, random_);
  std::vector<int32_t> position(static_cast<size_t>(tokens));
  std::iota(position.begin(), position.end(), 0);
  const std::vector<int32_t> sequence(position.size(), 0);
  std::vector<float> k = random_floats(tokens * dim);
  std::vector<float> q = random_floats(tokens * heads * dim);
  std::vector<float> w = random_floats(tokens * heads);
  RowMap map{tokens, position.data(), sequence.data(), keys.pages.data(), keys.stride, tokens};
  ops_->write_cache(view(k, dim), map, keys.layer);
  const auto lists_under = [&](Arena& arena, int64_t budget) {
    std::vector<int32_t> lists(static_cast<size_t>(tokens * topk), -1);
    std::vector<int32_t> count(position.size(), -1);
    make_cpu_ops(pool_, best_isa(), GetParam(), arena, budget)
        ->select(view(q, heads * dim), float_view(w, heads), 0.125F, map, keys.layer, heads, topk,
                 {{lists.data(), tokens, topk}, count.data()});
    return lists;
  };
  const std::vector<int32_t> wanted = lists_under(arena_, kIndexerScratchBytes);
  const int64_t least = indexer_scratch_bytes_min(tokens, heads, dim, pool_.size());
  for (const int64_t budget : {least, least + 1000, 3 * least}) {
    Arena measuring;
    (void)lists_under(measuring, budget);
    EXPECT_LE(measuring.peak_bytes(), budget);
    Arena exact(aligned(), measuring.peak_bytes());
    EXPECT_EQ(lists_under(exact, budget), wanted) << budget;
    EXPECT_EQ(exact.peak_bytes(), measuring.peak_bytes());
  }
  // A million tokens: one row of scores takes 4 MiB.
  map.context_max = 1048576;
  for (const int64_t budget : {int64_t{5} << 20, int64_t{64} << 20, int64_t{100} << 20}) {
    Arena measuring;
    (void)lists_under(measuring, budget);
    EXPECT_LE(measuring.peak_bytes(), budget);
    EXPECT_GT(measuring.peak_bytes(), budget - (int64_t{5} << 20)) << "a budget is there to be used";
  }
}

TEST_P(OpsTest, MeasuringTakesWhatRunningTakes) {
  Arena measuring;
  const auto planner = make_cpu_ops(pool_, best_isa(), GetParam(), measuring);
  const auto run = [&](Ops& ops) {
    const Arena::Scope scope(ops.arena());
    const Activation x = ops.activation(9, 64);
    std::vector<float> weight = random_floats(32 * 64);
    if (!ops.arena().measuring()) ops.upload(random_floats(9 * 64).data(), x);
    ops.linear(x, f32_weight(weight, 32, 64), ops.activation(9, 32));
  };
  run(*planner);
  Arena exact(aligned(), measuring.peak_bytes());
  const auto runner = make_cpu_ops(pool_, best_isa(), GetParam(), exact);
  run(*runner);
  EXPECT_EQ(exact.peak_bytes(), measuring.peak_bytes());
  Arena tight(aligned(), measuring.peak_bytes() - 1);
  const auto starved = make_cpu_ops(pool_, best_isa(), GetParam(), tight);
  EXPECT_THROW(run(*starved), std::runtime_error);
}

}  // namespace
}  // namespace glint::ops::cpu
