// The attention's products and the operations on vectors, every instruction set against float64 or exact
// bits.
#include "base/numeric.h"
#include "kernels_testing.h"

namespace glint::ops::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class KernelVectors : public IsaTest {};

TEST_P(KernelVectors, DotAgreesWithFloat64) {
  for (const int64_t K : {1, 7, 8, 16, 31, 64, 100, 128, 576}) {
    for (const int64_t M : {1, 2, 3, 4, 5, 6, 7, 8, 13, 32}) {
      for (const int64_t N : {1, 2, 3, 4, 5, 9, 64}) {
        const Edge edge = (M + N) % 2 == 0 ? Edge::end : Edge::begin;
        Guarded<float> x(normal_values(M * K, 1), edge);
        Guarded<float> y(normal_values(N * K, 2), edge);
        Guarded<float> out(M * N, edge);
        table().dot(x.data(), K, M, y.data(), K, N, K, out.data(), N);
        for (int64_t i = 0; i < M * N; ++i) {
          double exact = 0;
          double size = 0;
          for (int64_t k = 0; k < K; ++k) {
            const double product =
                static_cast<double>(x[i / N * K + k]) * static_cast<double>(y[i % N * K + k]);
            exact += product;
            size += std::abs(product);
          }
          ASSERT_NEAR(out[i], exact, size * sum_error(GetParam(), K))
              << K << ' ' << M << ' ' << N << " at " << i;
        }
      }
    }
  }
}

TEST_P(KernelVectors, DotOfARowAloneEqualsThatRowInABatch) {
  for (const int64_t K : {64, 100, 576}) {
    const std::vector<float> x = normal_values(40 * K, 3);
    const std::vector<float> y = normal_values(37 * K, 4);
    std::vector<float> batch(40 * 37);
    table().dot(x.data(), K, 40, y.data(), K, 37, K, batch.data(), 37);
    for (size_t m = 0; m < 40; ++m) {
      for (size_t n = 0; n < 37; ++n) {
        float alone;
        table().dot(&x[m * static_cast<size_t>(K)], K, 1, &y[n * static_cast<size_t>(K)], K, 1, K, &alone, 1);
        ASSERT_TRUE(same(alone, batch[m * 37 + n])) << m << ' ' << n;
      }
    }
  }
}

TEST_P(KernelVectors, DotKeepsItsStrides) {
  std::vector<float> x(3 * 50, kNan);
  std::vector<float> y(4 * 60, kNan);
  std::vector<float> out(3 * 9, -7.0F);
  for (size_t m = 0; m < 3; ++m) std::fill_n(&x[m * 50], 40, static_cast<float>(m + 1));
  for (size_t n = 0; n < 4; ++n) std::fill_n(&y[n * 60], 40, static_cast<float>(n + 2));
  table().dot(x.data(), 50, 3, y.data(), 60, 4, 40, out.data(), 9);
  for (size_t i = 0; i < out.size(); ++i) {
    const float expected = i % 9 < 4 ? 40.0F * static_cast<float>((i / 9 + 1) * (i % 9 + 2)) : -7.0F;
    ASSERT_EQ(out[i], expected) << i;
  }
}

TEST_P(KernelVectors, AccumulateIsAChainOfFusedMultiplyAdds) {
  for (const int64_t M : {1, 2, 3, 4, 5, 9, 32}) {
    for (const int64_t C : {1, 7, 8, 15, 16, 24, 40, 64, 100, 512}) {
      for (const int64_t I : {1, 63, 64, 65, 130}) {
        const Edge edge = (M + C + I) % 2 == 0 ? Edge::end : Edge::begin;
        Guarded<float> a(normal_values(M * I, 5), edge);
        Guarded<float> b(normal_values(I * C, 6), edge);
        const std::vector<float> start = normal_values(M * C, 7);
        Guarded<float> out(start, edge);
        table().accumulate(a.data(), I, M, b.data(), C, I, C, out.data(), C);
        for (int64_t m = 0; m < M; ++m) {
          for (int64_t c = 0; c < C; ++c) {
            float expected = start[static_cast<size_t>(m * C + c)];
            for (int64_t i = 0; i < I; ++i) expected = std::fma(a[m * I + i], b[i * C + c], expected);
            ASSERT_TRUE(same(out[m * C + c], expected))
                << M << ' ' << C << ' ' << I << " at " << m << ' ' << c;
          }
        }
      }
    }
  }
}

TEST_P(KernelVectors, AccumulateKeepsItsStrides) {
  std::vector<float> a(3 * 5, kNan);
  std::vector<float> b(4 * 30, kNan);
  std::vector<float> out(3 * 33, 1.0F);
  for (size_t m = 0; m < 3; ++m) std::fill_n(&a[m * 5], 4, 1.0F);
  for (size_t i = 0; i < 4; ++i) std::fill_n(&b[i * 30], 27, 2.0F);
  table().accumulate(a.data(), 5, 3, b.data(), 30, 4, 27, out.data(), 33);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], i % 33 < 27 ? 9.0F : 1.0F) << i;
}

TEST_P(KernelVectors, WeightedReluIsAChainOverHeads) {
  for (const int64_t N : {1, 7, 8, 16, 31, 64, 65, 200}) {
    for (const int64_t H : {1, 8, 32}) {
      const Edge edge = N % 2 == 0 ? Edge::end : Edge::begin;
      Guarded<float> score(normal_values(H * N, 8), edge);
      const std::vector<float> weight = normal_values(H, 9);
      Guarded<float> out(N, edge);
      table().weighted_relu(score.data(), N, H, N, weight.data(), out.data());
      for (int64_t n = 0; n < N; ++n) {
        float expected = 0;
        for (int64_t h = 0; h < H; ++h) {
          expected = std::fma(weight[static_cast<size_t>(h)], std::max(score[h * N + n], 0.0F), expected);
        }
        ASSERT_TRUE(same(out[n], expected)) << N << ' ' << H << ' ' << n;
      }
    }
  }
}

TEST_P(KernelVectors, SoftmaxAgreesWithFloat64) {
  for (const float scale : {1.0F, 0.0625F, 3.0F}) {
    for (int64_t n = 1; n < 80; ++n) {
      std::vector<float> values = normal_values(n, static_cast<uint32_t>(n));
      for (size_t i = 0; i < values.size(); ++i) values[i] *= i % 5 == 4 ? 30.0F : 3.0F;
      Guarded<float> x(values, n % 2 == 0 ? Edge::end : Edge::begin);
      table().softmax(x.data(), n, scale);
      double top = -kInfinity;
      for (const float value : values) top = std::max(top, static_cast<double>(scale) * value);
      double sum = 0;
      for (const float value : values) sum += std::exp(static_cast<double>(scale) * value - top);
      double total = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double argument = static_cast<double>(scale) * values[static_cast<size_t>(i)] - top;
        const double exact = std::exp(argument) / sum;
        // The argument carries two roundings of its size; then exp, the sum of n terms and the division.
        const double relative =
            (2.0 * (std::abs(argument) + std::abs(top)) + static_cast<double>(n) + 6.0) * 0x1p-24;
        ASSERT_NEAR(x[i], exact, exact * relative + 0x1p-149)
            << "n " << n << " scale " << scale << " at " << i;
        total += x[i];
      }
      ASSERT_NEAR(total, 1.0, 1e-5);
    }
  }
}

TEST_P(KernelVectors, SoftmaxOfExtremes) {
  std::vector<float> x = {-kInfinity, 0.0F, -200.0F, -kInfinity, 1.0F, 0, 0, 0, 0, 0, -kInfinity};
  table().softmax(x.data(), 11, 1.0F);
  EXPECT_EQ(x[0], 0.0F);
  EXPECT_EQ(x[2], 0.0F);
  EXPECT_EQ(x[10], 0.0F);
  EXPECT_GT(x[4], 0.2F);
  std::vector<float> poisoned = {1.0F, 2.0F, kNan, 3.0F, 0, 0, 0, 0, 0, 0};
  table().softmax(poisoned.data(), 10, 1.0F);
  for (const float value : poisoned) EXPECT_TRUE(std::isnan(value));
  float one = -5000.0F;
  table().softmax(&one, 1, 2.0F);
  EXPECT_EQ(one, 1.0F);
}

TEST_P(KernelVectors, SwigluAgreesWithFloat64) {
  std::vector<float> gate;
  for (float g = -120.0F; g < 120.0F; g += 0.037F) gate.push_back(g);
  for (const float g : {0.0F, -0.0F, 1e-40F, -87.3F, -88.8F, -103.0F, 88.7F, 1e30F, -1e30F})
    gate.push_back(g);
  const auto n = static_cast<int64_t>(gate.size());
  const std::vector<float> up = normal_values(n, 10);
  Guarded<float> guarded_gate(gate, Edge::end);
  Guarded<float> guarded_up(up, Edge::end);
  Guarded<float> out(n);
  table().swiglu(guarded_gate.data(), guarded_up.data(), n, out.data());
  for (int64_t i = 0; i < n; ++i) {
    const double g = gate[static_cast<size_t>(i)];
    const double exact = g / (1.0 + std::exp(-g)) * up[static_cast<size_t>(i)];
    const double factor = std::abs(up[static_cast<size_t>(i)]);
    // Where exp(-g) overflows float32 the quotient is zero: at most |g| / 3.4e38 is lost. Subnormal results
    // are multiples of 2^-149, before and after the product.
    const double slack = std::abs(g) * factor * 0x1p-126 + (1 + factor) * 0x1p-149;
    ASSERT_NEAR(out[i], exact, std::abs(exact) * 8 * 0x1p-24 + slack) << g;
  }
  const float special[] = {kNan, kInfinity};
  const float ones[] = {1.0F, 1.0F};
  float result[2];
  table().swiglu(special, ones, 2, result);
  EXPECT_TRUE(std::isnan(result[0]));
  EXPECT_EQ(result[1], kInfinity);
}

TEST_P(KernelVectors, SwigluOfAnElementIgnoresItsPlace) {
  const std::vector<float> gate = normal_values(100, 11);
  const std::vector<float> up = normal_values(100, 12);
  std::vector<float> whole(100);
  table().swiglu(gate.data(), up.data(), 100, whole.data());
  for (size_t i = 0; i < 100; ++i) {
    float alone;
    table().swiglu(&gate[i], &up[i], 1, &alone);
    ASSERT_TRUE(same(alone, whole[i])) << i;
  }
}

TEST_P(KernelVectors, SumOfSquaresAgreesWithFloat64) {
  for (int64_t n = 0; n < 300; n += n < 70 ? 1 : 37) {
    const std::vector<float> values = normal_values(n, static_cast<uint32_t>(n));
    Guarded<float> x(values, n % 2 == 0 ? Edge::end : Edge::begin);
    double exact = 0;
    for (const float value : values) exact += static_cast<double>(value) * value;
    ASSERT_NEAR(table().sum_squares(x.data(), n), exact, exact * sum_error(GetParam(), n)) << n;
  }
}

TEST_P(KernelVectors, RoundingToBfloat16IsExact) {
  // Every upper half with lower halves around the ties.
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t lower : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      values.push_back(std::bit_cast<float>((upper << 16) | lower));
    }
  }
  values.resize(values.size() - 3);
  const auto n = static_cast<int64_t>(values.size());
  Guarded<float> rounded(values, Edge::end);
  table().round_bf16(rounded.data(), n);
  Guarded<float> from(values, Edge::begin);
  Guarded<uint16_t> narrow(n);
  table().float_to_bf16(from.data(), n, narrow.data());
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t expected = float_to_bf16(values[static_cast<size_t>(i)]);
    ASSERT_EQ(std::bit_cast<uint32_t>(rounded[i]), uint32_t{expected} << 16) << i;
    ASSERT_EQ(narrow[i], expected) << i;
  }
}

TEST_P(KernelVectors, WideningIsExactAndEndsWhereItShould) {
  for (const int64_t n : {1, 5, 8, 9, 16, 23, 65536}) {
    for (const Edge edge : {Edge::end, Edge::begin}) {
      std::vector<uint16_t> values(static_cast<size_t>(n));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i * (n < 100 ? 2600 : 1));
      Guarded<uint16_t> x(values, edge);
      Guarded<float> out(n, edge);
      table().bf16_to_float(x.data(), n, out.data());
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), uint32_t{values[static_cast<size_t>(i)]} << 16);
      }
    }
  }
}

TEST_P(KernelVectors, ShortVectorsEndWhereTheyShould) {
  for (int64_t n = 1; n < 40; ++n) {
    std::vector<float> values = normal_values(n, 13);
    Guarded<float> x(values, Edge::begin);
    table().round_bf16(x.data(), n);
    Guarded<uint16_t> narrow(n, Edge::begin);
    table().float_to_bf16(x.data(), n, narrow.data());
    // Poison follows the last element; it must still be there.
    std::vector<float> out(static_cast<size_t>(n) + 8, -1.0F);
    table().swiglu(x.data(), x.data(), n, out.data());
    for (size_t i = static_cast<size_t>(n); i < out.size(); ++i) ASSERT_EQ(out[i], -1.0F);
    std::vector<uint16_t> words(static_cast<size_t>(n) + 8, 77);
    table().float_to_bf16(x.data(), n, words.data());
    for (size_t i = static_cast<size_t>(n); i < words.size(); ++i) ASSERT_EQ(words[i], 77);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, KernelVectors, all_isas(), isa_test_name);

}  // namespace
}  // namespace glint::ops::cpu
