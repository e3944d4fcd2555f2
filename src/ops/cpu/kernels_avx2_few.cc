// A few rows of x times W^T (AVX2). Every weight byte is used a few times only, so the codes are widened in
// registers, kRows weight rows by kM rows of x at a time: about eight sums in flight hide the latency of the
// additions.
#include "ops/cpu/kernels_avx2_formats.h"

namespace glint::ops::cpu {

namespace {

/// Rows of x, and FP8's multiple of them (null if there is none).
struct Rows {
  const float* raw;
  int64_t ld;
  const float* fast;
  int64_t fast_ld;

  [[nodiscard]] GLINT_INLINE Rows from(int64_t row, int64_t k = 0) const {
    return {raw + row * ld + k, ld, fast == nullptr ? nullptr : fast + row * fast_ld + k, fast_ld};
  }
};

#define GLINT_NOINLINE __attribute__((noinline))

/// The whole spans of a tile; leaves the sums in `sums` (8 floats each) and returns the columns done. On the
/// way the bytes from `ahead` on, as many as the tile has, are asked for, unless it is null: the rows of a
/// tile are several short streams, for which the processor's own prefetchers start anew every few rows, and
/// the same bytes are one long one. Kept apart from everything else so that its sums and constants fit into
/// the sixteen registers.
template <int kM, int kRows, class Format>
GLINT_NOINLINE int64_t add_whole_spans(Rows x, const Weight& w, const Format& shared, int64_t row,
                                       const uint8_t* ahead, float* sums) {
  constexpr int64_t kAhead = kRows * Format::bytes(Format::kSpan);
  const Format format = shared;
  __m256 acc[kM * kRows];
#pragma GCC unroll 8
  for (int i = 0; i < kM * kRows; ++i) acc[i] = _mm256_setzero_ps();
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
    const Rows at = x.from(0, k);
    format.template accumulate<kM, kRows>(
        {code + Format::bytes(k), stride, row, k, at.raw, at.ld, at.fast, at.fast_ld}, acc);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kM * kRows; ++i) _mm256_storeu_ps(sums + 8 * i, acc[i]);
  return k;
}

/// The columns from k on, fewer than a span, of one weight row.
template <int kM, class Format>
GLINT_NOINLINE void add_last_columns(Rows x, const Weight& w, const Format& format, int64_t row, int64_t k,
                                     float* sums) {
  const int64_t rest = w.cols - k;
  float values[Format::kSpan];
  decode_row(w, format, row, k, rest, values);
  for (int m = 0; m < kM; ++m) {
    __m256 acc = _mm256_loadu_ps(sums + 8 * m);
    add_span(format, values, x.raw + m * x.ld + k, rest, row, k, &acc);
    _mm256_storeu_ps(sums + 8 * m, acc);
  }
}

template <int kM, int kRows, class Format>
void multiply_tile(Rows x, const Weight& w, const Format& format, int64_t row, float* out, int64_t ldo,
                   const uint8_t* ahead) {
  float sums[kM * kRows * 8];
  const int64_t k = add_whole_spans<kM, kRows>(x, w, format, row, ahead, sums);
  for (int r = 0; r < kRows && k < w.cols; ++r) {
    add_last_columns<kM>(x, w, format, row + r, k, sums + r * kM * 8);
  }
  for (int m = 0; m < kM; ++m) {
    for (int r = 0; r < kRows; ++r) out[m * ldo + r] = reduce1(_mm256_loadu_ps(sums + (r * kM + m) * 8));
  }
}

/// kM rows of x by weight rows [row, row + count); asks for the bytes that lie `ahead` bytes further on, if
/// not 0.
template <int kM, class Format>
void multiply_rows(Rows x, const Weight& w, const Format& format, int64_t row, int64_t count, float* out,
                   int64_t ldo, int64_t ahead) {
  constexpr int kRows = kM == 1 ? 8 : kM == 2 ? 4 : 2;
  const auto bytes_ahead = [&](int64_t r) {
    return ahead == 0 ? nullptr : weight_bytes(w) + Format::bytes((row + r) * w.cols) + ahead;
  };
  int64_t r = 0;
  for (; r + kRows <= count; r += kRows) {
    multiply_tile<kM, kRows>(x, w, format, row + r, out + r, ldo, bytes_ahead(r));
  }
  for (; r < count; ++r) multiply_tile<kM, 1>(x, w, format, row + r, out + r, ldo, bytes_ahead(r));
}

constexpr int64_t kRowsTogether = 8;  // weight rows that stay in the first-level cache for the next rows of x

template <class Format>
void multiply(Rows x, int64_t m_count, const Weight& w, const Format& format, int64_t n0, int64_t n1,
              float* out, int64_t ldo) {
  int64_t rows = 0;
  for (int64_t n = n0; n < n1; n += rows) {
    rows = least(n1 - n, kRowsTogether - n % kRowsTogether);  // none cross an FP8 scale block
    int64_t ahead = n1 - n >= 2 * kRowsTogether ? Format::bytes(kRowsTogether * w.cols) : 0;
    int64_t tile = 0;
    for (int64_t m = 0; m < m_count; m += tile, ahead = 0) {
      tile = m_count - m == 5 ? 3 : least(m_count - m, 4);
      const Rows from = x.from(m);
      float* to = out + m * ldo + (n - n0);
      switch (tile) {
        case 4:
          multiply_rows<4>(from, w, format, n, rows, to, ldo, ahead);
          break;
        case 3:
          multiply_rows<3>(from, w, format, n, rows, to, ldo, ahead);
          break;
        case 2:
          multiply_rows<2>(from, w, format, n, rows, to, ldo, ahead);
          break;
        default:
          multiply_rows<1>(from, w, format, n, rows, to, ldo, ahead);
          break;
      }
    }
  }
}

}  // namespace

void avx2_matmul_few(const float* x, int64_t ldx, int64_t M, const Weight& w, int64_t n0, int64_t n1,
                     float* out, int64_t ldo, float* scratch) {
  Nvfp4Scales scales;
  nvfp4_scales(w, &scales);
  Rows rows = {x, ldx, nullptr, avx2_fast_x_floats(w.cols)};
  if (w.format == WeightFormat::fp8_block) {
    bool fast = true;
    for (int64_t m = 0; m < M; ++m)
      fast = fp8_scale_x(x + m * ldx, w.cols, scratch + m * rows.fast_ld) && fast;
    if (fast) rows.fast = scratch;
  }
  with_format(w, scales, [&](const auto& format) { multiply(rows, M, w, format, n0, n1, out, ldo); });
}

}  // namespace glint::ops::cpu
