// out += a b (AVX-512), the attention's weighted sum of values. Each output element is one chain of fused
// multiply-adds over i, so a tile may cover any rows and columns and i may be cut anywhere.
#include "ops/cpu/kernels_avx512.h"

namespace glint::ops::cpu {

namespace {

constexpr int64_t kDepth =
    64;  // rows of b that stay in the cache while all rows of a pass: 64 x 512 floats are 128 KB
constexpr int kVectors = 4;  // registers of columns

struct Operands {
  const float* a;
  int64_t lda;
  const float* b;
  int64_t ldb;
  float* out;
  int64_t ldo;
};

/// kM rows by up to 64 columns, those of `lanes`.
template <int kM>
void accumulate_tile(const Operands& p, int64_t count, const __mmask16* lanes) {
  __m512 acc[kM][kVectors];
#pragma GCC unroll 4
  for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      acc[m][v] = _mm512_maskz_loadu_ps(lanes[v], p.out + m * p.ldo + 16 * v);
  }
  for (int64_t i = 0; i < count; ++i) {
    __m512 b[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) b[v] = _mm512_maskz_loadu_ps(lanes[v], p.b + i * p.ldb + 16 * v);
#pragma GCC unroll 4
    for (int m = 0; m < kM; ++m) {
      const __m512 factor = _mm512_set1_ps(p.a[m * p.lda + i]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[m][v] = _mm512_fmadd_ps(factor, b[v], acc[m][v]);
    }
  }
#pragma GCC unroll 4
  for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_mask_storeu_ps(p.out + m * p.ldo + 16 * v, lanes[v], acc[m][v]);
  }
}

template <int kM>
void accumulate_rows(Operands p, int64_t count, int64_t columns) {
  constexpr int64_t kColumns = 16 * kVectors;
  for (int64_t c = 0; c < columns; c += kColumns, p.b += kColumns, p.out += kColumns) {
    __mmask16 lanes[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const int64_t left = columns - c - 16 * v;
      lanes[v] = left >= 16 ? 0xFFFF : left > 0 ? lanes16(left) : 0;
    }
    accumulate_tile<kM>(p, count, lanes);
  }
}

}  // namespace

void avx512_accumulate(const float* a, int64_t lda, int64_t M, const float* b, int64_t ldb, int64_t I,
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
