// out += a b (AVX2), the attention's weighted sum of values. Each output element is one chain of fused
// multiply-adds over i, so a tile may cover any rows and columns and i may be cut anywhere.
#include "ops/cpu/kernels_avx2.h"

namespace glint::ops::cpu {

namespace {

constexpr int64_t kDepth =
    64;  // rows of b that stay in the cache while all rows of a pass: 64 x 512 floats are 128 KB

struct Operands {
  const float* a;
  int64_t lda;
  const float* b;
  int64_t ldb;
  float* out;
  int64_t ldo;
};

/// kM rows by 8 kV columns.
template <int kM, int kV>
void accumulate_tile(const Operands& p, int64_t count) {
  __m256 acc[kM][kV];
#pragma GCC unroll 4
  for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) acc[m][v] = _mm256_loadu_ps(p.out + m * p.ldo + 8 * v);
  }
  for (int64_t i = 0; i < count; ++i) {
    __m256 b[kV];
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) b[v] = _mm256_loadu_ps(p.b + i * p.ldb + 8 * v);
#pragma GCC unroll 4
    for (int m = 0; m < kM; ++m) {
      const __m256 factor = _mm256_broadcast_ss(p.a + m * p.lda + i);
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) acc[m][v] = _mm256_fmadd_ps(factor, b[v], acc[m][v]);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) _mm256_storeu_ps(p.out + m * p.ldo + 8 * v, acc[m][v]);
  }
}

/// kM rows by fewer than 8 columns.
template <int kM>
void accumulate_edge(const Operands& p, int64_t count, int64_t columns) {
  const __m256i mask = lane_mask(columns);
  for (int m = 0; m < kM; ++m) {
    __m256 acc = _mm256_maskload_ps(p.out + m * p.ldo, mask);
    for (int64_t i = 0; i < count; ++i) {
      const __m256 b = _mm256_maskload_ps(p.b + i * p.ldb, mask);
      acc = _mm256_fmadd_ps(_mm256_broadcast_ss(p.a + m * p.lda + i), b, acc);
    }
    _mm256_maskstore_ps(p.out + m * p.ldo, mask, acc);
  }
}

template <int kM>
void accumulate_rows(Operands p, int64_t count, int64_t columns) {
  constexpr int kV = 3;
  int64_t c = 0;
  for (; c + 8 * kV <= columns; c += 8 * kV, p.b += 8 * kV, p.out += 8 * kV)
    accumulate_tile<kM, kV>(p, count);
  for (; c + 8 <= columns; c += 8, p.b += 8, p.out += 8) accumulate_tile<kM, 1>(p, count);
  if (c < columns) accumulate_edge<kM>(p, count, columns - c);
}

}  // namespace

void avx2_accumulate(const float* a, int64_t lda, int64_t M, const float* b, int64_t ldb, int64_t I,
                     int64_t C, float* out, int64_t ldo) {
  for (int64_t i = 0; i < I; i += kDepth) {
    const int64_t count = least(I - i, kDepth);
    for (int64_t m = 0; m < M; m += 4) {
      const Operands p = {a + m * lda + i, lda, b + i * ldb, ldb, out + m * ldo, ldo};
      switch (least(M - m, 4)) {
        case 4:
          accumulate_rows<4>(p, count, C);
          break;
        case 3:
          accumulate_rows<3>(p, count, C);
          break;
        case 2:
          accumulate_rows<2>(p, count, C);
          break;
        default:
          accumulate_rows<1>(p, count, C);
          break;
      }
    }
  }
}

}  // namespace glint::ops::cpu
