// Matrix products of many rows, for any instruction set: blocks of weight rows are decoded once and
// multiplied with all rows of x, a tile of sums at a time. Internal linkage throughout, see kernels_loops.h.
//
// Floor: two multiply-adds a cycle. An AVX2 tile of 3 x 4 sums covers their latency (4 cycles x 2 need 8
// sums) with 7 loads for 12 multiply-adds.
#pragma once

#include "ops/cpu/kernels_loops.h"

namespace glint::ops::cpu {

// NOLINTNEXTLINE(google-build-namespaces): internal linkage is the point.
namespace {

template <class Simd, int kM, int kN>
struct Tile {
  typename Simd::Sum acc[kM][kN];

  GLINT_INLINE void clear() {
#pragma GCC unroll 8
    for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < kN; ++n) acc[m][n] = Simd::zero();
    }
  }

  /// Adds one step of columns: kM registers for x, one for y in turn, all others hold sums.
  template <class Load>
  GLINT_INLINE void step(Matrix<Simd> x, Matrix<Simd> y, int64_t k, const Load& load) {
    typename Simd::Operand xs[kM];
#pragma GCC unroll 8
    for (int m = 0; m < kM; ++m) xs[m] = Simd::in_register(load(x.data + m * x.ld + k));
#pragma GCC unroll 8
    for (int n = 0; n < kN; ++n) {
      const auto weights = Simd::in_register(load(y.data + n * y.ld + k));
#pragma GCC unroll 8
      for (int m = 0; m < kM; ++m) acc[m][n] = Simd::multiply_add(weights, xs[m], acc[m][n]);
    }
  }

  /// Adds columns [0, count) of kM rows of x times kN rows of y, count a multiple of kStep.
  GLINT_INLINE void add(Matrix<Simd> x, Matrix<Simd> y, int64_t count) {
    for (int64_t k = 0; k < count; k += Simd::kStep) {
      step(x, y, k, [](const typename Simd::Element* at) { return Simd::load(at); });
    }
  }

  /// Adds columns [0, count), count < kStep.
  GLINT_INLINE void add_last(Matrix<Simd> x, Matrix<Simd> y, int64_t count) {
    step(x, y, 0, [count](const typename Simd::Element* at) { return Simd::load_part(at, count); });
  }

  GLINT_INLINE void load(const float* from, int64_t ld) {
#pragma GCC unroll 8
    for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < kN; ++n) acc[m][n] = Simd::load_sum(from + m * ld + Simd::kLanes * n);
    }
  }

  GLINT_INLINE void store(float* to, int64_t ld) const {
#pragma GCC unroll 8
    for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < kN; ++n) Simd::store_sum(to + m * ld + Simd::kLanes * n, acc[m][n]);
    }
  }

  /// to[m][n] = fma(acc[m][n], scale[n], to[m][n]).
  GLINT_INLINE void scale_into(const float* scale, float* to, int64_t ld) const {
    scale_onto(scale, to, ld, [](const float* at) { return Simd::load_sum(at); });
  }

  /// to[m][n] = fma(acc[m][n], scale[n], 0).
  GLINT_INLINE void scale_first(const float* scale, float* to, int64_t ld) const {
    scale_onto(scale, to, ld, [](const float*) { return Simd::zero(); });
  }

  template <class Before>
  GLINT_INLINE void scale_onto(const float* scale, float* to, int64_t ld, const Before& before) const {
#pragma GCC unroll 8
    for (int n = 0; n < kN; ++n) {
#pragma GCC unroll 8
      for (int m = 0; m < kM; ++m) {
        float* at = to + m * ld + Simd::kLanes * n;
        Simd::store_sum(at, Simd::scale_add(acc[m][n], scale[n], before(at)));
      }
    }
  }
};

/// Columns decoded together: a few FP8 blocks.
template <class Simd>
constexpr int64_t kChunk = kChunkBytes / static_cast<int64_t>(sizeof(typename Simd::Element));

template <class Simd>
GLINT_INLINE Matrix<Simd> shift(Matrix<Simd> matrix, int64_t columns) {
  return {matrix.data + columns, matrix.ld};
}

/// Adds a chunk to the sums at acc[m][n] (row stride `lda` floats), which start at zero if `first`. Not
/// inlined, and the ragged end apart: with anything more to keep, the compiler puts sums into memory.
template <class Simd, int kM, int kN>
GLINT_NOINLINE void add_chunk(Matrix<Simd> x, Matrix<Simd> y, int64_t count, bool first, float* acc,
                              int64_t lda) {
  Tile<Simd, kM, kN> tile;
  if (first) {
    tile.clear();
  } else {
    tile.load(acc, lda);
  }
  tile.add(x, y, count);
  tile.store(acc, lda);
}

template <class Simd, int kM, int kN>
GLINT_NOINLINE void add_ragged_end(Matrix<Simd> x, Matrix<Simd> y, int64_t count, float* acc, int64_t lda) {
  Tile<Simd, kM, kN> tile;
  tile.load(acc, lda);
  tile.add_last(x, y, count);
  tile.store(acc, lda);
}

/// Adds blocks of 128 columns, `count` columns in all; the scales of the next block lie kPanel further on.
template <class Simd, int kM, int kN>
GLINT_NOINLINE void add_blocks(Matrix<Simd> x, Matrix<Simd> y, int64_t count, bool first, const float* scale,
                               float* acc, int64_t lda) {
  if (first && count == 0) {
    Tile<Simd, kM, kN> zero;
    zero.clear();
    zero.store(acc, lda);
  }
  for (int64_t k = 0; k < count; k += kBlock, scale += kPanel) {
    Tile<Simd, kM, kN> tile;
    tile.clear();
    tile.add(shift(x, k), shift(y, k), least(count - k, kBlock));
    if (first && k == 0) {
      tile.scale_first(scale, acc, lda);
    } else {
      tile.scale_into(scale, acc, lda);
    }
    // The outputs stay where they are: copies of them on the stack would be stored twice.
    asm volatile("" ::: "memory");
  }
}

/// A block whose columns are no multiple of kStep, after `acc` has been set.
template <class Simd, int kM, int kN>
GLINT_NOINLINE void add_ragged_block(Matrix<Simd> x, Matrix<Simd> y, int64_t count, const float* scale,
                                     float* acc, int64_t lda) {
  Tile<Simd, kM, kN> tile;
  tile.clear();
  const int64_t whole = count / Simd::kStep * Simd::kStep;
  tile.add(x, y, whole);
  tile.add_last(shift(x, whole), shift(y, whole), count - whole);
  tile.scale_into(scale, acc, lda);
}

/// How many of `left` rows the next tile takes: `most`, but no single row after it.
GLINT_INLINE int64_t tile_rows(int64_t left, int64_t most) {
  return left == most + 1 ? (left + 1) / 2 : least(left, most);
}

/// Calls body.template operator()<m>() for m in [1, kMost].
template <int kMost, class Body>
GLINT_INLINE void with_constant(int64_t m, const Body& body) {
  if constexpr (kMost > 1) {
    if (m < kMost) {
      with_constant<kMost - 1>(m, body);
      return;
    }
  }
  body.template operator()<kMost>();
}

/// One decoded chunk of columns of up to kPanel weight rows.
template <class Simd>
struct Panel {
  Matrix<Simd> weights;
  int64_t n_count;
  int64_t count;  // columns
  bool first;
  const float* scale;  // with block scales: [blocks][kPanel]
};

template <class Simd, int kM, int kN, bool kBlockScaled>
GLINT_INLINE void add_tile(Matrix<Simd> x, const Panel<Simd>& panel, int64_t n, float* acc) {
  constexpr int64_t kAccRow = kPanel * Simd::kLanes;
  const Matrix<Simd> y = {panel.weights.data + n * panel.weights.ld, panel.weights.ld};
  float* sums = acc + n * Simd::kLanes;
  const int64_t rest = panel.count % Simd::kStep;
  if constexpr (kBlockScaled) {
    const int64_t even = rest == 0 ? panel.count : panel.count / kBlock * kBlock;
    add_blocks<Simd, kM, kN>(x, y, even, panel.first, panel.scale + n, sums, kAccRow);
    if (rest == 0) return;
    const float* scale = panel.scale + even / kBlock * kPanel + n;
    add_ragged_block<Simd, kM, kN>(shift(x, even), shift(y, even), panel.count - even, scale, sums, kAccRow);
  } else {
    const int64_t even = panel.count - rest;
    add_chunk<Simd, kM, kN>(x, y, even, panel.first, sums, kAccRow);
    if (rest == 0) return;
    add_ragged_end<Simd, kM, kN>(shift(x, even), shift(y, even), rest, sums, kAccRow);
  }
}

/// One chunk of columns for a panel of weight rows and all rows of x.
template <class Simd, bool kBlockScaled>
void add_panel(Matrix<Simd> x, int64_t m_count, const Panel<Simd>& panel, float* acc) {
  constexpr int kMost = kBlockScaled ? Simd::kBlockTileM : Simd::kTileM;
  for (int64_t m = 0; m < m_count;) {
    const int64_t m_tile = tile_rows(m_count - m, kMost);
    with_constant<kMost>(m_tile, [&]<int kM>() {
      const Matrix<Simd> rows = {x.data + m * x.ld, x.ld};
      float* sums = acc + m * kPanel * Simd::kLanes;
      int64_t n = 0;
      for (; n + Simd::kTileN <= panel.n_count; n += Simd::kTileN) {
        add_tile<Simd, kM, Simd::kTileN, kBlockScaled>(rows, panel, n, sums);
      }
      for (; n < panel.n_count; ++n) add_tile<Simd, kM, 1, kBlockScaled>(rows, panel, n, sums);
    });
    m += m_tile;
  }
}

template <class Simd>
void finish_panel(const float* acc, int64_t m_count, int64_t n_count, float* out, int64_t ldo) {
  // Four at once (the same tree): with few columns an output's lanes take as long to add as its products.
  constexpr int kTogether = 4;
  for (int64_t m = 0; m < m_count; ++m) {
    const float* row = acc + m * kPanel * Simd::kLanes;
    int64_t n = 0;
    for (; n + kTogether <= n_count; n += kTogether) {
      typename Simd::Sum sums[kTogether];
#pragma GCC unroll 4
      for (int i = 0; i < kTogether; ++i) sums[i] = Simd::load_sum(row + (n + i) * Simd::kLanes);
      Simd::finish4(sums, out + m * ldo + n);
    }
    for (; n < n_count; ++n) out[m * ldo + n] = Simd::finish(Simd::load_sum(row + n * Simd::kLanes));
  }
}

/// Floats of scratch that multiply_many needs.
template <class Simd>
GLINT_INLINE int64_t many_scratch_floats() {
  return kPanel * kChunkBytes / 4 + kRowsMax * kPanel * Simd::kLanes;
}

/// Up to kRowsMax rows of x by weight rows [n0, n1).
template <class Simd, class Format>
void multiply_many(Matrix<Simd> x, int64_t m_count, const Weight& w, const Format& format, int64_t n0,
                   int64_t n1, float* out, int64_t ldo, float* scratch) {
  constexpr int64_t kColumns = kChunk<Simd>;
  float* acc = scratch;
  auto* weights = reinterpret_cast<typename Simd::Element*>(scratch + kRowsMax * kPanel * Simd::kLanes);
  float scale[kColumns / kBlock * kPanel];
  for (int64_t n = n0; n < n1; n += kPanel) {
    const int64_t n_count = least(n1 - n, kPanel);
    for (int64_t k = 0; k < w.cols; k += kColumns) {
      const int64_t count = least(w.cols - k, kColumns);
      for (int64_t r = 0; r < n_count; ++r) {
        if (n + r + kPanel < n1) {
          prefetch(weight_bytes(w) + Format::bytes((n + r + kPanel) * w.cols + k), Format::bytes(count));
        }
        decode_row<Simd>(w, format, n + r, k, count, weights + r * kColumns);
        if constexpr (Format::kBlockScaled) {
          for (int64_t i = 0; i < count; i += kBlock)
            scale[i / kBlock * kPanel + r] = format.scale(n + r, k + i);
        }
      }
      const Panel<Simd> panel = {{weights, kColumns}, n_count, count, k == 0, scale};
      add_panel<Simd, Format::kBlockScaled>(shift(x, k), m_count, panel, acc);
    }
    finish_panel<Simd>(acc, m_count, n_count, out + (n - n0), ldo);
  }
}

// --- Products of float32 rows with float32 rows.

/// kM x kN finished outputs.
template <class Simd, int kM, int kN>
GLINT_NOINLINE void dot_tile(Matrix<Simd> x, Matrix<Simd> y, int64_t k, float* out, int64_t ldo) {
  Tile<Simd, kM, kN> tile;
  tile.clear();
  const int64_t whole = k / Simd::kStep * Simd::kStep;
  tile.add(x, y, whole);
  if (whole < k) tile.add_last(shift(x, whole), shift(y, whole), k - whole);
#pragma GCC unroll 8
  for (int m = 0; m < kM; ++m) {
    if constexpr (kN == 4) {
      Simd::finish4(tile.acc[m], out + m * ldo);
    } else {
#pragma GCC unroll 8
      for (int n = 0; n < kN; ++n) out[m * ldo + n] = Simd::finish(tile.acc[m][n]);
    }
  }
}

template <class Simd>
void dot_rows(Matrix<Simd> x, int64_t m_count, Matrix<Simd> y, int64_t n_count, int64_t k, float* out,
              int64_t ldo) {
  static_assert(Simd::kTileN == 4);
  // Four rows of y stay in the first-level cache while all rows of x pass.
  for (int64_t n = 0; n < n_count; n += 4) {
    const Matrix<Simd> ys = {y.data + n * y.ld, y.ld};
    for (int64_t m = 0; m < m_count;) {
      const int64_t m_tile = tile_rows(m_count - m, Simd::kTileM);
      with_constant<Simd::kTileM>(m_tile, [&]<int kM>() {
        with_constant<4>(least(n_count - n, 4), [&]<int kN>() {
          dot_tile<Simd, kM, kN>({x.data + m * x.ld, x.ld}, ys, k, out + m * ldo + n, ldo);
        });
      });
      m += m_tile;
    }
  }
}

}  // namespace

}  // namespace glint::ops::cpu
