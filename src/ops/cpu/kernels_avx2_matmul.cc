// Matrix products (AVX2). An output is one 8-lane accumulator (for FP8 one for each block of 128 columns,
// joined by fma(sum, scale, output)): lane j adds x[k] * w[k] for k = j, j + 8, ... in that order by fused
// multiply-add, then the lanes are added in a fixed tree (reduce4). Blocking stores and reloads whole
// accumulators, so it cannot be seen in a result.
//
// Floor: two fused multiply-adds a cycle. A tile of 3 x rows by 4 weight rows keeps 12 accumulators in flight
// (latency 4 x 2 a cycle needs 8) and loads 7 registers for them.
#include "ops/cpu/kernels_avx2_decode.h"

namespace glint::ops::cpu {

namespace {

constexpr int64_t kFewRows = 8;    // up to here decoding into scratch would cost more than it saves
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

  /// Adds eight columns: kM registers for x, one for y in turn, all others hold sums.
  template <class Load>
  GLINT_INLINE void step(const float* x, int64_t ldx, const float* y, int64_t ldy, const Load& load) {
    __m256 xs[kM];
#pragma GCC unroll 4
    for (int m = 0; m < kM; ++m) xs[m] = in_register(load(x + m * ldx));
#pragma GCC unroll 4
    for (int n = 0; n < kN; ++n) {
      const __m256 weight = in_register(load(y + n * ldy));
#pragma GCC unroll 4
      for (int m = 0; m < kM; ++m) acc[m][n] = _mm256_fmadd_ps(xs[m], weight, acc[m][n]);
    }
  }

  /// Adds columns [0, count) of kM rows of x times kN rows of y, count a multiple of 8.
  GLINT_INLINE void add(Matrix x, Matrix y, int64_t count) {
    for (int64_t k = 0; k < count; k += 8) {
      step(x.data + k, x.ld, y.data + k, y.ld, [](const float* at) { return _mm256_loadu_ps(at); });
    }
  }

  /// Adds columns [0, count), count < 8.
  GLINT_INLINE void add_last(Matrix x, Matrix y, int64_t count) {
    const __m256i mask = lane_mask(count);
    step(x.data, x.ld, y.data, y.ld, [mask](const float* at) { return _mm256_maskload_ps(at, mask); });
  }

  GLINT_INLINE void load(const float* from, int64_t ld) {
#pragma GCC unroll 4
    for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 4
      for (int n = 0; n < kN; ++n) acc[m][n] = _mm256_loadu_ps(from + m * ld + 8 * n);
    }
  }

  /// to[m][n] = fma(acc[m][n], scale[n], to[m][n]).
  GLINT_INLINE void scale_into(const float* scale, float* to, int64_t ld) const {
#pragma GCC unroll 4
    for (int n = 0; n < kN; ++n) {
      const __m256 factor = _mm256_broadcast_ss(scale + n);
#pragma GCC unroll 4
      for (int m = 0; m < kM; ++m) {
        float* at = to + m * ld + 8 * n;
        _mm256_storeu_ps(at, _mm256_fmadd_ps(acc[m][n], factor, _mm256_loadu_ps(at)));
      }
    }
  }

  GLINT_INLINE void store(float* to, int64_t ld) const {
#pragma GCC unroll 4
    for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 4
      for (int n = 0; n < kN; ++n) _mm256_storeu_ps(to + m * ld + 8 * n, acc[m][n]);
    }
  }
};

/// Adds a chunk to the accumulators at acc[m][n] (8 floats each, row stride `lda`), which start at zero if
/// `first`. Not inlined, and the ragged end apart: with anything more to keep, the compiler puts sums into
/// memory.
template <int kM, int kN>
__attribute__((noinline)) void add_chunk(Matrix x, Matrix y, int64_t count, bool first, float* acc,
                                         int64_t lda) {
  Tile<kM, kN> tile;
  if (first) {
    tile.clear();
  } else {
    tile.load(acc, lda);
  }
  tile.add(x, y, count);
  tile.store(acc, lda);
}

template <int kM, int kN>
__attribute__((noinline)) void add_last_columns(Matrix x, Matrix y, int64_t count, float* acc, int64_t lda) {
  Tile<kM, kN> tile;
  tile.load(acc, lda);
  tile.add_last(x, y, count);
  tile.store(acc, lda);
}

/// Adds FP8 blocks of 128 columns, `count` columns in all: acc[m][n] = fma(sum over the block, scale[n],
/// acc[m][n]); the scales of the next block lie kPanel further on.
template <int kM, int kN>
__attribute__((noinline)) void add_blocks(Matrix x, Matrix y, int64_t count, bool first, const float* scale,
                                          float* acc, int64_t lda) {
  if (first) {
    Tile<kM, kN> zero;
    zero.clear();
    zero.store(acc, lda);
  }
  for (int64_t k = 0; k < count; k += kBlock, scale += kPanel) {
    Tile<kM, kN> tile;
    tile.clear();
    tile.add({x.data + k, x.ld}, {y.data + k, y.ld}, least(count - k, kBlock));
    tile.scale_into(scale, acc, lda);
    // The outputs stay where they are: copies of them on the stack would be stored twice.
    asm volatile("" ::: "memory");
  }
}

/// A block whose columns are no multiple of 8, after `acc` has been set.
template <int kM, int kN>
__attribute__((noinline)) void add_ragged_block(Matrix x, Matrix y, int64_t count, const float* scale,
                                                float* acc, int64_t lda) {
  Tile<kM, kN> tile;
  tile.clear();
  const int64_t whole = count & ~int64_t{7};
  tile.add(x, y, whole);
  tile.add_last({x.data + whole, x.ld}, {y.data + whole, y.ld}, count - whole);
  tile.scale_into(scale, acc, lda);
}

/// kM x kN finished outputs.
template <int kM, int kN>
void dot_tile(Matrix x, Matrix y, int64_t k, float* out, int64_t ldo) {
  Tile<kM, kN> tile;
  tile.clear();
  const int64_t whole = k & ~int64_t{7};
  tile.add(x, y, whole);
  if (whole < k) tile.add_last({x.data + whole, x.ld}, {y.data + whole, y.ld}, k - whole);
#pragma GCC unroll 4
  for (int m = 0; m < kM; ++m) store_sums<kN>(tile.acc[m], out + m * ldo);
}

using DotTile = void (*)(Matrix, Matrix, int64_t, float*, int64_t);

constexpr DotTile kDotTile[3][4] = {{dot_tile<1, 1>, dot_tile<1, 2>, dot_tile<1, 3>, dot_tile<1, 4>},
                                    {dot_tile<2, 1>, dot_tile<2, 2>, dot_tile<2, 3>, dot_tile<2, 4>},
                                    {dot_tile<3, 1>, dot_tile<3, 2>, dot_tile<3, 3>, dot_tile<3, 4>}};

/// How many of `left` rows of x the next tile takes: threes, but four rows as two and two.
GLINT_INLINE int64_t tile_rows(int64_t left) {
  return left == 4 ? 2 : least(left, 3);
}

struct Panel {
  Matrix weights;  // one decoded chunk of up to kPanel weight rows
  int64_t n_count;
  int64_t count;  // columns
  bool first;
  const float* scale;  // FP8: [blocks][kPanel]; else null
};

template <int kM, int kN>
GLINT_INLINE void add_tile(Matrix x, const Panel& panel, int64_t n, float* acc) {
  constexpr int64_t kAccRow = kPanel * 8;
  const Matrix y = {panel.weights.data + n * panel.weights.ld, panel.weights.ld};
  const int64_t whole = panel.count & ~int64_t{7};
  if (panel.scale != nullptr) {
    const bool ragged = whole != panel.count;
    const int64_t even = ragged ? panel.count / kBlock * kBlock : panel.count;
    add_blocks<kM, kN>(x, y, even, panel.first, panel.scale + n, acc + n * 8, kAccRow);
    if (!ragged) return;
    add_ragged_block<kM, kN>({x.data + even, x.ld}, {y.data + even, y.ld}, panel.count - even,
                             panel.scale + even / kBlock * kPanel + n, acc + n * 8, kAccRow);
    return;
  }
  add_chunk<kM, kN>(x, y, whole, panel.first, acc + n * 8, kAccRow);
  if (whole == panel.count) return;
  add_last_columns<kM, kN>({x.data + whole, x.ld}, {y.data + whole, y.ld}, panel.count - whole, acc + n * 8,
                           kAccRow);
}

template <int kM>
void add_rows(Matrix x, const Panel& panel, float* acc) {
  int64_t n = 0;
  for (; n + 4 <= panel.n_count; n += 4) add_tile<kM, 4>(x, panel, n, acc);
  for (; n < panel.n_count; ++n) add_tile<kM, 1>(x, panel, n, acc);
}

/// One chunk of columns for a panel of weight rows and all rows of x.
void add_panel(Matrix x, int64_t m_count, const Panel& panel, float* acc) {
  for (int64_t m = 0; m < m_count;) {
    const Matrix rows = {x.data + m * x.ld, x.ld};
    const int64_t m_tile = tile_rows(m_count - m);
    float* sums = acc + m * kPanel * 8;
    switch (m_tile) {
      case 3:
        add_rows<3>(rows, panel, sums);
        break;
      case 2:
        add_rows<2>(rows, panel, sums);
        break;
      default:
        add_rows<1>(rows, panel, sums);
        break;
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
void matmul_rows(Matrix x, int64_t m_count, const Weight& w, const Nvfp4Scales& scales, int64_t n0,
                 int64_t n1, float* out, int64_t ldo, float* scratch) {
  float* weights = scratch;
  float* acc = scratch + kPanel * kChunk;
  const bool fp8 = w.format == WeightFormat::fp8_block;
  float scale[kChunk / kBlock * kPanel];
  for (int64_t n = n0; n < n1; n += kPanel) {
    const int64_t n_count = least(n1 - n, kPanel);
    for (int64_t k = 0; k < w.cols; k += kChunk) {
      const int64_t count = least(w.cols - k, kChunk);
      avx2_decode_panel(w, scales, n, n_count, n1, k, count, weights, kChunk);
      for (int64_t i = 0; fp8 && i < count; i += kBlock) {
        for (int64_t r = 0; r < n_count; ++r) scale[i / kBlock * kPanel + r] = fp8_scale(w, n + r, k + i);
      }
      const Panel panel = {{weights, kChunk}, n_count, count, k == 0, fp8 ? scale : nullptr};
      add_panel({x.data + k, x.ld}, m_count, panel, acc);
    }
    finish_panel(acc, m_count, n_count, out + (n - n0), ldo);
  }
}

}  // namespace

int64_t avx2_matmul_scratch_floats(int64_t k) {
  const int64_t few = kFewRows * avx2_fast_x_floats(k);
  const int64_t many = kPanel * kChunk + kRowsMax * kPanel * 8;
  return few > many ? few : many;
}

void avx2_matmul(const float* x, int64_t ldx, int64_t M, const Weight& w, int64_t n0, int64_t n1, float* out,
                 int64_t ldo, bool /*x_is_bf16*/, float* scratch) {
  if (M <= kFewRows) {
    avx2_matmul_few(x, ldx, M, w, n0, n1, out, ldo, scratch);
    return;
  }
  Nvfp4Scales scales;
  nvfp4_scales(w, &scales);
  for (int64_t m = 0; m < M; m += kRowsMax) {
    matmul_rows({x + m * ldx, ldx}, least(M - m, kRowsMax), w, scales, n0, n1, out + m * ldo, ldo, scratch);
  }
}

void avx2_dot(const float* x, int64_t ldx, int64_t M, const float* y, int64_t ldy, int64_t N, int64_t K,
              float* out, int64_t ldo) {
  // Four rows of y stay in the first-level cache while all rows of x pass.
  for (int64_t n = 0; n < N; n += 4) {
    for (int64_t m = 0; m < M;) {
      const int64_t m_tile = tile_rows(M - m);
      kDotTile[m_tile - 1][least(N - n, 4) - 1]({x + m * ldx, ldx}, {y + n * ldy, ldy}, K, out + m * ldo + n,
                                                ldo);
      m += m_tile;
    }
  }
}

}  // namespace glint::ops::cpu
