// Matrix products (AVX2). An output is one 8-lane accumulator: lane j adds x[k] * w[k] for k = j, j + 8, ...
// in that order by fused multiply-add, then the lanes are added in a fixed tree (reduce4). Blocking stores
// and reloads whole accumulators, so it cannot be seen in a result.
//
// Floor: two fused multiply-adds a cycle. A tile of 3 x rows by 4 weight rows keeps 12 accumulators in flight
// (latency 4 x 2 a cycle needs 8) and loads 7 registers for them.
#include "ops/cpu/kernels_avx2.h"

namespace glint::ops::cpu {

namespace {

constexpr int64_t kRowsMax = 128;  // rows of x whose accumulators stay in the L2 cache: 128 x 16 x 32 bytes

struct Matrix {
  const float* data;
  int64_t ld;
};

template <int kM, int kN>
struct Tile {
  __m256 acc[kM][kN];

  GLINT_INLINE void clear() {
#pragma GCC unroll 4
    for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 4
      for (int n = 0; n < kN; ++n) acc[m][n] = _mm256_setzero_ps();
    }
  }

  GLINT_INLINE void step(const __m256* xs, const __m256* ys) {
#pragma GCC unroll 4
    for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 4
      for (int n = 0; n < kN; ++n) acc[m][n] = _mm256_fmadd_ps(xs[m], ys[n], acc[m][n]);
    }
  }

  /// Adds columns [0, count) of kM rows of x times kN rows of y.
  GLINT_INLINE void add(Matrix x, Matrix y, int64_t count) {
    __m256 xs[kM];
    __m256 ys[kN];
    int64_t k = 0;
    for (; k + 8 <= count; k += 8) {
#pragma GCC unroll 4
      for (int n = 0; n < kN; ++n) ys[n] = _mm256_loadu_ps(y.data + n * y.ld + k);
#pragma GCC unroll 4
      for (int m = 0; m < kM; ++m) xs[m] = _mm256_loadu_ps(x.data + m * x.ld + k);
      step(xs, ys);
    }
    if (k == count) return;
    const __m256i mask = lane_mask(count - k);
#pragma GCC unroll 4
    for (int n = 0; n < kN; ++n) ys[n] = _mm256_maskload_ps(y.data + n * y.ld + k, mask);
#pragma GCC unroll 4
    for (int m = 0; m < kM; ++m) xs[m] = _mm256_maskload_ps(x.data + m * x.ld + k, mask);
    step(xs, ys);
  }
};

/// Adds one chunk to the accumulators at acc[m][n] (8 floats each, row stride `lda`), which start at zero if
/// `first`.
template <int kM, int kN>
void add_chunk(Matrix x, Matrix y, int64_t count, bool first, float* acc, int64_t lda) {
  Tile<kM, kN> tile;
  tile.clear();
  if (!first) {
#pragma GCC unroll 4
    for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 4
      for (int n = 0; n < kN; ++n) tile.acc[m][n] = _mm256_loadu_ps(acc + m * lda + 8 * n);
    }
  }
  tile.add(x, y, count);
#pragma GCC unroll 4
  for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 4
    for (int n = 0; n < kN; ++n) _mm256_storeu_ps(acc + m * lda + 8 * n, tile.acc[m][n]);
  }
}

/// kM x kN finished outputs.
template <int kM, int kN>
void dot_tile(Matrix x, Matrix y, int64_t k, float* out, int64_t ldo) {
  Tile<kM, kN> tile;
  tile.clear();
  tile.add(x, y, k);
#pragma GCC unroll 4
  for (int m = 0; m < kM; ++m) store_sums<kN>(tile.acc[m], out + m * ldo);
}

using AddChunk = void (*)(Matrix, Matrix, int64_t, bool, float*, int64_t);
using DotTile = void (*)(Matrix, Matrix, int64_t, float*, int64_t);

constexpr AddChunk kAddChunk[3][4] = {{add_chunk<1, 1>, add_chunk<1, 2>, add_chunk<1, 3>, add_chunk<1, 4>},
                                      {add_chunk<2, 1>, add_chunk<2, 2>, add_chunk<2, 3>, add_chunk<2, 4>},
                                      {add_chunk<3, 1>, add_chunk<3, 2>, add_chunk<3, 3>, add_chunk<3, 4>}};
constexpr DotTile kDotTile[3][4] = {{dot_tile<1, 1>, dot_tile<1, 2>, dot_tile<1, 3>, dot_tile<1, 4>},
                                    {dot_tile<2, 1>, dot_tile<2, 2>, dot_tile<2, 3>, dot_tile<2, 4>},
                                    {dot_tile<3, 1>, dot_tile<3, 2>, dot_tile<3, 3>, dot_tile<3, 4>}};

/// How many of `left` rows of x the next tile takes: threes, but four rows as two and two.
GLINT_INLINE int64_t tile_rows(int64_t left) {
  return left == 4 ? 2 : least(left, 3);
}

/// One chunk of columns for a panel of weight rows and all rows of x.
void add_panel(Matrix x, int64_t m_count, const float* weights, int64_t n_count, int64_t count, bool first,
               float* acc) {
  for (int64_t m = 0; m < m_count;) {
    const int64_t m_tile = tile_rows(m_count - m);
    for (int64_t n = 0; n < n_count; n += 4) {
      kAddChunk[m_tile - 1][least(n_count - n, 4) - 1]({x.data + m * x.ld, x.ld},
                                                       {weights + n * kChunk, kChunk}, count, first,
                                                       acc + (m * kPanel + n) * 8, kPanel * 8);
    }
    m += m_tile;
  }
}

void finish_panel(const float* acc, int64_t m_count, int64_t n_count, float* out, int64_t ldo) {
  for (int64_t m = 0; m < m_count; ++m) {
    for (int64_t n = 0; n < n_count; ++n) {
      out[m * ldo + n] = reduce1(_mm256_loadu_ps(acc + (m * kPanel + n) * 8));
    }
  }
}

/// Up to kRowsMax rows of x by weight rows [n0, n1).
void matmul_rows(Matrix x, int64_t m_count, const Weight& w, const float* scales, int64_t n0, int64_t n1,
                 float* out, int64_t ldo, float* scratch) {
  float* weights = scratch;
  float* acc = scratch + kPanel * kChunk;
  for (int64_t n = n0; n < n1; n += kPanel) {
    const int64_t n_count = least(n1 - n, kPanel);
    for (int64_t k = 0; k < w.cols; k += kChunk) {
      const int64_t count = least(w.cols - k, kChunk);
      avx2_decode_panel(w, scales, n, n_count, k, count, weights, kChunk);
      add_panel({x.data + k, x.ld}, m_count, weights, n_count, count, k == 0, acc);
    }
    finish_panel(acc, m_count, n_count, out + (n - n0), ldo);
  }
}

}  // namespace

int64_t avx2_matmul_scratch_floats(int64_t /*k*/) {
  return kPanel * kChunk + kRowsMax * kPanel * 8;
}

void avx2_matmul(const float* x, int64_t ldx, int64_t M, const Weight& w, int64_t n0, int64_t n1, float* out,
                 int64_t ldo, bool /*x_is_bf16*/, float* scratch) {
  if (M == 1) {
    avx2_gemv(x, w, n0, n1, out);
    return;
  }
  float scales[256];
  avx2_scale_table(w, scales);
  for (int64_t m = 0; m < M; m += kRowsMax) {
    matmul_rows({x + m * ldx, ldx}, least(M - m, kRowsMax), w, scales, n0, n1, out + m * ldo, ldo, scratch);
  }
}

void avx2_dot(const float* x, int64_t ldx, int64_t M, const float* y, int64_t ldy, int64_t N, int64_t K,
              float* out, int64_t ldo) {
  for (int64_t m = 0; m < M;) {
    const int64_t m_tile = tile_rows(M - m);
    for (int64_t n = 0; n < N; n += 4) {
      kDotTile[m_tile - 1][least(N - n, 4) - 1]({x + m * ldx, ldx}, {y + n * ldy, ldy}, K, out + m * ldo + n,
                                                ldo);
    }
    m += m_tile;
  }
}

}  // namespace glint::ops::cpu
