// The matrix products and the decoding of weights, every instruction set against float64.
#include "kernels_testing.h"

namespace glint::ops::cpu {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::f32, WeightFormat::bf16, WeightFormat::fp8_block,
                                     WeightFormat::nvfp4};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class KernelProducts : public IsaTest {
 protected:
  /// Columns that the formats' spans do not divide, and some that they do.
  static std::vector<int64_t> columns(WeightFormat format) {
    if (format == WeightFormat::nvfp4) return {16, 32, 48, 128, 144, 256, 272, 576, 1040};
    return {1, 7, 8, 31, 40, 64, 100, 128, 131, 136, 255, 256, 264, 391, 576, 1040};
  }

  void check_finite(const TestWeight& w, const std::vector<float>& x, const std::vector<float>& out) const;

  /// All of x times rows [n0, n1) of `w` against the oracle.
  void check(const TestWeight& w, const std::vector<float>& x, int64_t M, int64_t n0, int64_t n1, bool bf16,
             Edge edge) {
    const int64_t K = w.weight.cols;
    const int64_t N = n1 - n0;
    Guarded<float> rows(x, edge);
    Guarded<float> out(M * N, edge);
    matmul(rows.data(), K, M, w.weight, n0, n1, out.data(), N, bf16);
    for (int64_t n = n0; n < n1; ++n) {
      std::vector<double> values(static_cast<size_t>(K));
      for (int64_t k = 0; k < K; ++k) values[static_cast<size_t>(k)] = w.value(n, k);
      for (int64_t m = 0; m < M; ++m) {
        double exact = 0;
        double size = 0;
        for (int64_t k = 0; k < K; ++k) {
          const double product =
              static_cast<double>(x[static_cast<size_t>(m * K + k)]) * values[static_cast<size_t>(k)];
          exact += product;
          size += std::abs(product);
        }
        const double error = std::abs(static_cast<double>(out[m * N + n - n0]) - exact);
        // The last term: BF16 dot products take subnormal numbers for zero.
        ASSERT_LE(error, size * sum_error(GetParam(), K) + static_cast<double>(K) * 0x1p-126)
            << format_name(w.weight.format) << " K " << K << " row " << m << " of " << M << " column " << n;
      }
    }
  }
};

/// Every output against the oracle, a NaN where it has one; sums that may overflow float32 are left out.
void KernelProducts::check_finite(const TestWeight& w, const std::vector<float>& x,
                                  const std::vector<float>& out) const {
  const int64_t K = w.weight.cols;
  const int64_t N = w.weight.rows;
  for (size_t i = 0; i < out.size(); ++i) {
    double exact = 0;
    double size = 0;
    for (int64_t k = 0; k < K; ++k) {
      const double factor = x[i / static_cast<size_t>(N) * static_cast<size_t>(K) + static_cast<size_t>(k)];
      const double product = factor * w.value(static_cast<int64_t>(i) % N, k);
      exact += product;
      size += std::abs(product);
    }
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(out[i])) << i;
    } else if (size < 1e38) {
      ASSERT_NEAR(out[i], exact, size * sum_error(GetParam(), K) + static_cast<double>(K) * 0x1p-126) << i;
    }
  }
}

TEST_P(KernelProducts, AgreeWithFloat64) {
  uint32_t seed = 1;
  for (const WeightFormat format : kFormats) {
    for (const int64_t K : columns(format)) {
      for (const Edge edge : {Edge::end, Edge::begin}) {
        ++seed;
        // The last rows of a matrix with a partial block of rows, and a cut across a block's boundary.
        const TestWeight w(format, 147, K, seed, edge);
        const bool bf16 = seed % 2 == 0;
        const std::vector<float> x = normal_values(67 * K, seed, bf16);
        check(w, {x.begin(), x.begin() + K}, 1, 0, 147, bf16, edge);
        check(w, x, 67, 117, 147, bf16, edge);
      }
    }
  }
}

TEST_P(KernelProducts, AgreeWithFloat64ForAnyNumberOfRows) {
  for (const WeightFormat format : kFormats) {
    const TestWeight w(format, 40, 400, 3);
    for (const int64_t M : {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 64, 65, 127, 128, 129, 131, 200}) {
      check(w, normal_values(M * 400, static_cast<uint32_t>(M), true), M, 3, 24, true, Edge::end);
    }
  }
}

TEST_P(KernelProducts, PartialBlocksOf576Rows) {
  for (const WeightFormat format : {WeightFormat::fp8_block, WeightFormat::bf16}) {
    const TestWeight w(format, 576, 40, 5);
    check(w, normal_values(12 * 40, 6), 12, 0, 576, false, Edge::end);
    check(w, normal_values(40, 6), 1, 500, 576, false, Edge::begin);
  }
}

TEST_P(KernelProducts, ARowAloneEqualsThatRowInABatch) {
  constexpr int64_t kMost = 67;
  for (const WeightFormat format : kFormats) {
    for (const int64_t K : {40, 128, 304, 1040}) {
      if (format == WeightFormat::nvfp4 && K % 16 != 0) continue;
      for (const bool bf16 : {false, true}) {
        const TestWeight w(format, 150, K, 11);
        const std::vector<float> x = normal_values(kMost * K, 12, bf16);
        Guarded<float> alone(kMost * 150);
        for (int64_t m = 0; m < kMost; ++m) {
          matmul(&x[static_cast<size_t>(m * K)], K, 1, w.weight, 0, 150, &alone[m * 150], 150, bf16);
        }
        Guarded<float> batch(kMost * 150);
        for (int64_t M = 2; M <= kMost; ++M) {
          matmul(x.data(), K, M, w.weight, 0, 150, batch.data(), 150, bf16);
          for (int64_t i = 0; i < M * 150; ++i) {
            ASSERT_TRUE(same(batch[i], alone[i]))
                << format_name(format) << " K " << K << " M " << M << " row " << i / 150 << " column "
                << i % 150 << ": " << batch[i] << " not " << alone[i];
          }
        }
      }
    }
  }
}

TEST_P(KernelProducts, AnyCutOfTheWeightRowsGivesTheSame) {
  std::mt19937 random(21);
  for (const WeightFormat format : kFormats) {
    const TestWeight w(format, 300, 272, 22);
    for (const int64_t M : {1, 3, 20}) {
      const std::vector<float> x = normal_values(M * 272, 23, true);
      Guarded<float> whole(M * 300);
      matmul(x.data(), 272, M, w.weight, 0, 300, whole.data(), 300, true);
      for (int trial = 0; trial < 25; ++trial) {
        const auto n0 = static_cast<int64_t>(random() % 300);
        const int64_t n1 = n0 + 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(300 - n0));
        Guarded<float> part(M * (n1 - n0));
        matmul(x.data(), 272, M, w.weight, n0, n1, part.data(), n1 - n0, true);
        for (int64_t m = 0; m < M; ++m) {
          for (int64_t n = n0; n < n1; ++n) {
            ASSERT_TRUE(same(part[m * (n1 - n0) + n - n0], whole[m * 300 + n]))
                << format_name(format) << ' ' << n;
          }
        }
      }
    }
  }
}

TEST_P(KernelProducts, WeightsMayHaveAnyAddress) {
  for (const WeightFormat format : kFormats) {
    TestWeight w(format, 24, 144, 31);
    const std::vector<float> x = normal_values(9 * 144, 32);
    std::vector<float> expected(9 * 24);
    matmul(x.data(), 144, 9, w.weight, 0, 24, expected.data(), 24, false);
    for (int64_t offset = 1; offset < 64; ++offset) {
      for (const Edge edge : {Edge::end, Edge::begin}) {
        w.place(edge, offset);
        for (const int64_t M : {1, 9}) {
          std::vector<float> out(static_cast<size_t>(M * 24));
          matmul(x.data(), 144, M, w.weight, 0, 24, out.data(), 24, false);
          for (size_t i = 0; i < out.size(); ++i) {
            ASSERT_TRUE(same(out[i], expected[i])) << format_name(format) << " at byte " << offset;
          }
        }
      }
    }
  }
}

TEST_P(KernelProducts, StridesAreKeptAndNothingElseIsWritten) {
  constexpr float kPoison = 12345.0F;
  for (const WeightFormat format : kFormats) {
    const TestWeight w(format, 50, 80, 41);
    for (const int64_t M : {1, 2, 8, 13}) {
      const std::vector<float> x = normal_values(M * 80, 42);
      std::vector<float> wide(static_cast<size_t>(M * 91),
                              kInfinity);  // what lies between the rows must not be read
      for (int64_t m = 0; m < M; ++m)
        std::copy_n(&x[static_cast<size_t>(m * 80)], 80, &wide[static_cast<size_t>(m * 91)]);
      std::vector<float> expected(static_cast<size_t>(M * 20));
      matmul(x.data(), 80, M, w.weight, 7, 27, expected.data(), 20, false);
      std::vector<float> out(static_cast<size_t>(M * 33), kPoison);
      matmul(wide.data(), 91, M, w.weight, 7, 27, out.data(), 33, false);
      for (int64_t m = 0; m < M; ++m) {
        for (int64_t n = 0; n < 33; ++n) {
          const float value = out[static_cast<size_t>(m * 33 + n)];
          ASSERT_TRUE(same(value, n < 20 ? expected[static_cast<size_t>(m * 20 + n)] : kPoison))
              << m << ' ' << n;
        }
      }
    }
  }
}

TEST_P(KernelProducts, TwentyRunsAreTheSame) {
  for (const WeightFormat format : kFormats) {
    const TestWeight w(format, 64, 400, 51);
    for (const int64_t M : {1, 5, 30}) {
      const std::vector<float> x = normal_values(M * 400, 52, true);
      std::vector<float> first;
      for (int run = 0; run < 20; ++run) {
        // Scratch holds something else every time.
        std::vector<float> scratch(static_cast<size_t>(table().matmul_scratch_floats(400)),
                                   run % 2 == 0 ? kInfinity : static_cast<float>(run));
        std::vector<float> out(static_cast<size_t>(M * 64));
        table().matmul(x.data(), 400, M, w.weight, 0, 64, out.data(), 64, true, scratch.data());
        if (run == 0) first = out;
        ASSERT_EQ(std::memcmp(out.data(), first.data(), out.size() * 4), 0) << format_name(format);
      }
    }
  }
}

TEST_P(KernelProducts, NotANumberAndInfinityPropagate) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const WeightFormat format : kFormats) {
    for (const int64_t K : {48, 400}) {
      TestWeight w(format, 20, K, 61);
      for (const int64_t M : {1, 12}) {
        for (const float special : {nan, kInfinity, -kInfinity}) {
          for (const int64_t at : {int64_t{0}, K / 2, K - 1}) {
            std::vector<float> x = normal_values(M * K, 62, true);
            x[static_cast<size_t>(at)] = special;  // of row 0
            std::vector<float> out(static_cast<size_t>(M * 20));
            matmul(x.data(), K, M, w.weight, 0, 20, out.data(), 20, true);
            for (int64_t n = 0; n < 20; ++n) {
              const double weight = w.value(n, at);
              const double expected = special * weight;  // inf * 0 is NaN, as it is in the sum
              const float got = out[static_cast<size_t>(n)];
              ASSERT_TRUE(std::isnan(expected) ? std::isnan(got) : got == static_cast<float>(expected))
                  << format_name(format) << ' ' << special << " times " << weight << " gave " << got;
            }
            for (size_t i = 20; i < out.size(); ++i) ASSERT_TRUE(std::isfinite(out[i]));
          }
        }
      }
    }
  }
}

TEST_P(KernelProducts, NanCodesAndOddScalesOfFp8) {
  // One NaN code spoils its own output alone; huge, tiny, zero and infinite scales act as they should.
  for (const int64_t M : {1, 3, 12}) {
    TestWeight w(WeightFormat::fp8_block, 260, 300, 71);
    w.codes[5 * 300 + 17] = 0x7F;
    w.codes[200 * 300 + 299] = 0xFF;
    for (const float scale : {0.0F, 1e-44F, 1e-38F, 1.0F, -2.0F, 130.0F, 1e33F, 7e35F}) {
      for (const float size : {1.0F, 0x1p-60F}) {
        w.scales[1] = scale;  // rows 0-127, columns 128-255
        w.place(Edge::end);
        std::vector<float> x = normal_values(M * 300, 72, true);
        for (float& value : x) value *= size;
        std::vector<float> out(static_cast<size_t>(M * 260));
        matmul(x.data(), 300, M, w.weight, 0, 260, out.data(), 260, true);
        check_finite(w, x, out);
      }
    }
    w.scales[1] = kInfinity;
    w.place(Edge::end);
    const std::vector<float> x = normal_values(M * 300, 72, true);
    std::vector<float> out(static_cast<size_t>(M * 260));
    matmul(x.data(), 300, M, w.weight, 0, 260, out.data(), 260, true);
    for (int64_t n = 0; n < 260; ++n) {
      ASSERT_EQ(std::isfinite(out[static_cast<size_t>(n)]), n >= 128 && n != 200) << n;
    }
  }
}

TEST_P(KernelProducts, PaddingOfNvfp4StaysOutOfInfiniteSums) {
  for (const int64_t K : {16, 32, 48}) {
    TestWeight w(WeightFormat::nvfp4, 4, K, 2);
    std::fill(w.codes.begin(), w.codes.end(), uint8_t{0x22});                // 1.0 everywhere
    std::fill(w.block_scales.begin(), w.block_scales.end(), uint8_t{0x38});  // 1.0
    w.weight.global_scale = kInfinity;
    w.weight.global_divides = false;
    w.place(Edge::end);
    for (const int64_t M : {1, 12}) {
      const std::vector<float> x(static_cast<size_t>(M * K), 1.0F);
      std::vector<float> out(static_cast<size_t>(M * 4));
      matmul(x.data(), K, M, w.weight, 0, 4, out.data(), 4, true);
      for (const float value : out) ASSERT_EQ(value, kInfinity) << K;
    }
  }
}

TEST_P(KernelProducts, NumbersOfAnySizeKeepRowsIndependent) {
  // Sizes at which a kernel may have to leave its fast way: a row must not notice its neighbours.
  for (const WeightFormat format : kFormats) {
    const TestWeight w(format, 33, 272, 81);
    for (const float size : {1e-44F, 1e-38F, 1e-30F, 1e-27F, 1e5F, 2e5F, 1e30F}) {
      std::vector<float> x = normal_values(11 * 272, 82, true);
      for (size_t i = 0; i < 272; ++i) x[3 * 272 + i] *= size;
      for (float& value : x) value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFF0000U);
      x[5 * 272 + 100] = size;
      std::vector<float> batch(11 * 33);
      matmul(x.data(), 272, 11, w.weight, 0, 33, batch.data(), 33, true);
      for (const int64_t M : {1, 2, 6}) {
        for (int64_t m = 0; m + M <= 11; ++m) {
          std::vector<float> alone(static_cast<size_t>(M * 33));
          matmul(&x[static_cast<size_t>(m * 272)], 272, M, w.weight, 0, 33, alone.data(), 33, true);
          for (size_t i = 0; i < alone.size(); ++i) {
            ASSERT_TRUE(same(alone[i], batch[static_cast<size_t>(m * 33) + i]))
                << format_name(format) << " size " << size << " rows from " << m << ", " << M << " of them";
          }
        }
      }
    }
  }
}

TEST_P(KernelProducts, ZeroTimesAnythingFiniteIsZero) {
  for (const WeightFormat format : kFormats) {
    const TestWeight w(format, 20, 144, 91);
    for (const int64_t M : {1, 9}) {
      const std::vector<float> x(static_cast<size_t>(M * 144), 0.0F);
      std::vector<float> out(static_cast<size_t>(M * 20), 1.0F);
      matmul(x.data(), 144, M, w.weight, 0, 20, out.data(), 20, true);
      for (const float value : out) ASSERT_EQ(value, 0.0F);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, KernelProducts, all_isas(), isa_test_name);

class KernelDecoding : public IsaTest {
 protected:
  void check(const TestWeight& w) {
    const int64_t K = w.weight.cols;
    const int64_t N = w.weight.rows;
    for (const Edge edge : {Edge::end, Edge::begin}) {
      Guarded<float> out(N * K, edge);
      table().decode_rows(w.weight, 0, N, out.data(), K);
      std::vector<float> portable(static_cast<size_t>(N * K));
      kernels(Isa::portable).decode_rows(w.weight, 0, N, portable.data(), K);
      for (int64_t i = 0; i < N * K; ++i) {
        const auto expected = static_cast<float>(w.value(i / K, i % K));
        ASSERT_TRUE(same(out[i], expected)) << format_name(w.weight.format) << ' ' << i / K << ' ' << i % K
                                            << ": " << out[i] << " not " << expected;
        ASSERT_TRUE(same(out[i], portable[static_cast<size_t>(i)]));
      }
    }
  }
};

TEST_P(KernelDecoding, RowsOfAllShapes) {
  for (const WeightFormat format : kFormats) {
    for (const int64_t K : {16, 40, 48, 100, 131, 144, 256, 272, 391}) {
      if (format == WeightFormat::nvfp4 && K % 16 != 0) continue;
      check(TestWeight(format, 131, K, static_cast<uint32_t>(K)));
    }
  }
}

TEST_P(KernelDecoding, AllFp8CodesWithAllSortsOfScales) {
  TestWeight w(WeightFormat::fp8_block, 2, 256, 1);
  for (size_t i = 0; i < 512; ++i) w.codes[i] = static_cast<uint8_t>(i);
  for (const float scale : {1.0F, 0.0123F, -3.0F, 0.0F, 1e-45F, 1.5e-38F, 127.9F, 128.0F, 1e36F, 3e38F,
                            kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    w.scales = {scale, 0.5F * scale};
    w.place(Edge::end);
    check(w);
  }
}

TEST_P(KernelDecoding, AllNvfp4CodesWithAllBlockScales) {
  for (const bool divides : {false, true}) {
    for (const float global : {1.0F, 2.3e-5F, 4567.0F, 1e-37F, 1e-44F, 3e38F}) {
      TestWeight w(WeightFormat::nvfp4, 256, 32, 2);
      for (size_t i = 0; i < w.codes.size(); ++i)
        w.codes[i] = static_cast<uint8_t>((i * 0x22U + 0x10U) & 0xFFU);
      for (size_t i = 0; i < w.block_scales.size(); ++i) w.block_scales[i] = static_cast<uint8_t>(i / 2);
      for (size_t i = 0; i < 16; ++i) w.codes[i] = static_cast<uint8_t>(i | ((15 - i) << 4));
      w.weight.global_scale = global;
      w.weight.global_divides = divides;
      w.place(Edge::end);
      check(w);
    }
  }
}

TEST_P(KernelDecoding, AnyRowsWithAStride) {
  const TestWeight w(WeightFormat::fp8_block, 200, 72, 3);
  std::vector<float> out(5 * 80, -1.0F);
  table().decode_rows(w.weight, 126, 5, out.data(), 80);
  for (int64_t r = 0; r < 5; ++r) {
    for (int64_t c = 0; c < 80; ++c) {
      const float expected = c < 72 ? static_cast<float>(w.value(126 + r, c)) : -1.0F;
      ASSERT_TRUE(same(out[static_cast<size_t>(r * 80 + c)], expected)) << r << ' ' << c;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, KernelDecoding, all_isas(), isa_test_name);

}  // namespace
}  // namespace glint::ops::cpu
