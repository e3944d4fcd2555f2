// The loops of the matrix products, for any instruction set. An instruction set gives its registers as a
// class Simd and its weight formats as classes Format; each is compiled with the files of its own set.
//
// Everything here has internal linkage: a file compiled for an instruction set must not emit a function that
// the linker could choose for callers on lesser machines. So such files call no function of another header
// either, std:: included.
//
// The order of additions: an output is one register of sums, lane j adding the columns of lane j of each
// operand in ascending order by fused multiply-add; then the lanes are added in a fixed tree (Simd::finish).
// A block-scaled format (FP8) has one such register for each block of 128 columns, which joins the output's
// register as fma(block's sum, scale, output's sum). Blocking stores and reloads whole registers, so it shows
// in no result.
//
// Simd: Element (what products are made of) and Operand, a register of kStep of them; Sum, a register of
// kLanes floats; load, load_part (zeros from `count` on), in_register, zero, multiply_add, load_sum,
// store_sum, scale_add, finish; kTileM and kTileN, the rows of x and of weights whose sums fit into the
// registers, kBlockTileM with block scales.
//
// Format: kSpan, the columns it decodes at a time; bytes(count), what they occupy; span(), which decodes one
// span
// (`count` < kSpan only says how many columns are real, all kSpan codes are readable); accumulate<kM,
// kRows>(), which adds kM rows of x times kRows rows of W over one whole span, acc[r * kM + m], without
// storing what it decoded; and, if kBlockScaled, scale(). span() and accumulate() see the same values; with
// block scales the scale is not in them.
#pragma once

#include <cstdint>

#include "ops/cpu/kernels.h"

namespace glint::ops::cpu {

// NOLINTNEXTLINE(google-build-namespaces): internal linkage is the point, see above.
namespace {

#define GLINT_INLINE __attribute__((always_inline)) inline
#define GLINT_NOINLINE __attribute__((noinline))

constexpr int64_t kBlock = 128;        // FP8 scale blocks
constexpr int64_t kGroup = 16;         // NVFP4 scale groups
constexpr int64_t kPanel = 16;         // weight rows decoded together
constexpr int64_t kChunkBytes = 1024;  // of a decoded row at a time: 16 of them stay in the first-level cache
// Rows of x whose sums stay in the second-level cache: 128 x 16 registers are 64 KB (AVX2) or 128 KB
// (AVX-512).
constexpr int64_t kRowsMax = 128;
// Up to here decoding into scratch would cost more than it saves.
constexpr int64_t kFewRows = 8;

GLINT_INLINE int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

template <class T>
GLINT_INLINE T load_as(const void* address) {
  T value;
  __builtin_memcpy(&value, address, sizeof value);
  return value;
}

GLINT_INLINE const uint8_t* weight_bytes(const Weight& w) {
  return static_cast<const uint8_t*>(w.data);
}

GLINT_INLINE float fp8_scale(const Weight& w, int64_t row, int64_t col) {
  const int64_t blocks = (w.cols + kBlock - 1) / kBlock;
  const int64_t index = row / kBlock * blocks + col / kBlock;
  return load_as<float>(static_cast<const uint8_t*>(w.scale) + index * 4);
}

/// Asks for `bytes` bytes from memory.
GLINT_INLINE void prefetch(const uint8_t* at, int64_t bytes) {
  constexpr int64_t kLine = 64;
  for (int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(at + i);
}

template <class Simd>
struct Matrix {
  const typename Simd::Element* data;
  int64_t ld;
};

/// Columns [k, k + count) of a row as elements, padded with zeros to a multiple of kStep; k a multiple of
/// kSpan.
template <class Simd, class Format>
GLINT_INLINE void decode_row(const Weight& w, const Format& format, int64_t row, int64_t k, int64_t count,
                             typename Simd::Element* out) {
  const uint8_t* code = weight_bytes(w) + Format::bytes(row * w.cols + k);
  int64_t done = 0;
  for (; done + Format::kSpan <= count; done += Format::kSpan) {
    format.span(code + Format::bytes(done), row, k + done, Format::kSpan, out + done);
  }
  const int64_t rest = count - done;
  if (rest == 0) return;
  uint8_t padded[Format::kSpan * 4] = {};
  typename Simd::Element values[Format::kSpan];
  __builtin_memcpy(padded, code + Format::bytes(done), static_cast<size_t>(Format::bytes(rest)));
  format.span(padded, row, k + done, rest, values);
  // What pads the last step decodes to zero. (NVFP4, whose scale could make it NaN, has whole groups and no
  // padding.)
  for (int64_t i = 0; i < rest; i += Simd::kStep) {
    Simd::store(out + done + i, Simd::load(values + i));
  }
}

// --- Few rows of x: every weight byte is used a few times only, so the codes are widened in registers, kRows
// weight rows by kM rows of x at a time. About eight sums in flight hide the latency of the additions.

/// Rows of x as elements, and a multiple of them that a format may prefer (null: there is none).
template <class Simd>
struct FewRows {
  const typename Simd::Element* raw;
  int64_t ld;
  const typename Simd::Element* fast;
  int64_t fast_ld;

  [[nodiscard]] GLINT_INLINE FewRows from(int64_t row, int64_t k = 0) const {
    return {raw + row * ld + k, ld, fast == nullptr ? nullptr : fast + row * fast_ld + k, fast_ld};
  }
};

/// What accumulate() works on: codes of rows that lie `stride` bytes apart, from row `row` and column `k` of
/// W on, and the rows of x from the same column on. Rows of a block-scaled format do not cross a multiple of
/// 128.
template <class Simd>
struct FewOperand {
  const uint8_t* code;
  int64_t stride;
  int64_t row;
  int64_t k;
  FewRows<Simd> x;
};

/// acc[m] += weights * one step of columns of row m.
template <class Simd, int kM>
GLINT_INLINE void multiply_add(typename Simd::Operand weights, const typename Simd::Element* x, int64_t ldx,
                               typename Simd::Sum* acc) {
#pragma GCC unroll 8
  for (int m = 0; m < kM; ++m) acc[m] = Simd::multiply_add(weights, Simd::load(x + m * ldx), acc[m]);
}

/// Adds `count` decoded columns of one weight row times one row of x.
template <class Simd, class Format>
GLINT_INLINE void add_span(const Format& format, const typename Simd::Element* values,
                           const typename Simd::Element* x, int64_t count, int64_t row, int64_t k,
                           typename Simd::Sum* acc) {
  typename Simd::Sum sum = Format::kBlockScaled ? Simd::zero() : *acc;
  for (int64_t i = 0; i < count; i += Simd::kStep) {
    const int64_t columns = least(count - i, Simd::kStep);
    sum = Simd::multiply_add(Simd::load(values + i), Simd::load_part(x + i, columns), sum);
  }
  if constexpr (Format::kBlockScaled) sum = Simd::scale_add(sum, format.scale(row, k), *acc);
  *acc = sum;
}

/// What accumulate() means, for the spans that a format's fast way cannot do.
template <class Simd, int kM, int kRows, class Format>
GLINT_NOINLINE void accumulate_slowly(const Format& format, const FewOperand<Simd>& p,
                                      typename Simd::Sum* acc) {
  typename Simd::Element values[Format::kSpan];
  for (int r = 0; r < kRows; ++r) {
    format.span(p.code + r * p.stride, p.row + r, p.k, Format::kSpan, values);
    for (int m = 0; m < kM; ++m) {
      add_span<Simd>(format, values, p.x.raw + m * p.x.ld, Format::kSpan, p.row + r, p.k, acc + r * kM + m);
    }
  }
}

/// The whole spans of a tile; leaves the sums in `sums` and returns the columns done. On the way the bytes
/// from `ahead` on, as many as the tile has, are asked for, unless it is null: the rows of a tile are several
/// short streams, for which the processor's own prefetchers start anew every few rows, and the same bytes are
/// one long stream. A function of its own, so that the sums and constants fit into the registers.
template <class Simd, int kM, int kRows, class Format>
GLINT_NOINLINE int64_t add_whole_spans(FewRows<Simd> x, const Weight& w, const Format& shared, int64_t row,
                                       const uint8_t* ahead, float* sums) {
  constexpr int64_t kAhead = kRows * Format::bytes(Format::kSpan);
  const Format format = shared;
  typename Simd::Sum acc[kM * kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kM * kRows; ++i) acc[i] = Simd::zero();
  const int64_t stride = Format::bytes(w.cols);
  const uint8_t* code = weight_bytes(w) + row * stride;
  int64_t k = 0;
#pragma GCC unroll 1
  for (; k + Format::kSpan <= w.cols; k += Format::kSpan) {
    // Wide rows are long streams by themselves, and with one row of x there is no time to spare for asking.
    if ((kM > 1 || Format::bytes(1) < 2) && ahead != nullptr) {
      prefetch(ahead, kAhead);
      ahead += kAhead;
    }
    format.template accumulate<kM, kRows>({code + Format::bytes(k), stride, row, k, x.from(0, k)}, acc);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kM * kRows; ++i) Simd::store_sum(sums + Simd::kLanes * i, acc[i]);
  return k;
}

/// The columns from k on, fewer than a span, of one weight row.
template <class Simd, int kM, class Format>
GLINT_NOINLINE void add_last_columns(FewRows<Simd> x, const Weight& w, const Format& format, int64_t row,
                                     int64_t k, float* sums) {
  const int64_t rest = w.cols - k;
  typename Simd::Element values[Format::kSpan];
  decode_row<Simd>(w, format, row, k, rest, values);
  for (int m = 0; m < kM; ++m) {
    typename Simd::Sum acc = Simd::load_sum(sums + Simd::kLanes * m);
    add_span<Simd>(format, values, x.raw + m * x.ld + k, rest, row, k, &acc);
    Simd::store_sum(sums + Simd::kLanes * m, acc);
  }
}

template <class Simd, int kM, int kRows, class Format>
void multiply_tile(FewRows<Simd> x, const Weight& w, const Format& format, int64_t row, float* out,
                   int64_t ldo, const uint8_t* ahead) {
  float sums[kM * kRows * Simd::kLanes];
  const int64_t k = add_whole_spans<Simd, kM, kRows>(x, w, format, row, ahead, sums);
  for (int r = 0; r < kRows && k < w.cols; ++r) {
    add_last_columns<Simd, kM>(x, w, format, row + r, k, sums + r * kM * Simd::kLanes);
  }
  for (int m = 0; m < kM; ++m) {
    for (int r = 0; r < kRows; ++r) {
      out[m * ldo + r] = Simd::finish(Simd::load_sum(sums + (r * kM + m) * Simd::kLanes));
    }
  }
}

/// kM rows of x by weight rows [row, row + count); asks for the bytes that lie `ahead` bytes further on, if
/// not 0.
template <class Simd, int kM, class Format>
void multiply_rows(FewRows<Simd> x, const Weight& w, const Format& format, int64_t row, int64_t count,
                   float* out, int64_t ldo, int64_t ahead) {
  constexpr int kRows = kM == 1 ? 8 : kM == 2 ? 4 : 2;
  const auto bytes_ahead = [&](int64_t r) {
    return ahead == 0 ? nullptr : weight_bytes(w) + Format::bytes((row + r) * w.cols) + ahead;
  };
  int64_t r = 0;
  for (; r + kRows <= count; r += kRows) {
    multiply_tile<Simd, kM, kRows>(x, w, format, row + r, out + r, ldo, bytes_ahead(r));
  }
  for (; r < count; ++r) multiply_tile<Simd, kM, 1>(x, w, format, row + r, out + r, ldo, bytes_ahead(r));
}

/// m_count rows of x by weight rows [n0, n1).
template <class Simd, class Format>
void multiply_few(FewRows<Simd> x, int64_t m_count, const Weight& w, const Format& format, int64_t n0,
                  int64_t n1, float* out, int64_t ldo) {
  constexpr int64_t kTogether = 8;  // weight rows that stay in the first-level cache for the next rows of x
  int64_t rows = 0;
  for (int64_t n = n0; n < n1; n += rows) {
    rows = least(n1 - n, kTogether - n % kTogether);  // none cross an FP8 scale block
    int64_t ahead = n1 - n >= 2 * kTogether ? Format::bytes(kTogether * w.cols) : 0;
    int64_t tile = 0;
    for (int64_t m = 0; m < m_count; m += tile, ahead = 0) {
      tile = m_count - m == 5 ? 3 : least(m_count - m, 4);
      const FewRows<Simd> from = x.from(m);
      float* to = out + m * ldo + (n - n0);
      switch (tile) {
        case 4:
          multiply_rows<Simd, 4>(from, w, format, n, rows, to, ldo, ahead);
          break;
        case 3:
          multiply_rows<Simd, 3>(from, w, format, n, rows, to, ldo, ahead);
          break;
        case 2:
          multiply_rows<Simd, 2>(from, w, format, n, rows, to, ldo, ahead);
          break;
        default:
          multiply_rows<Simd, 1>(from, w, format, n, rows, to, ldo, ahead);
          break;
      }
    }
  }
}

}  // namespace

}  // namespace glint::ops::cpu
