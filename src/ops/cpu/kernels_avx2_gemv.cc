// One row of x times W^T (AVX2): every weight byte is used once, so the codes are widened in registers and
// eight weight rows at a time hide the latency of the additions.
#include "ops/cpu/kernels_avx2_formats.h"

namespace glint::ops::cpu {

namespace {

template <int kRows, class Format>
GLINT_INLINE void gemv_rows(const float* x, const Weight& w, const Format& format, int64_t row, float* out) {
  __m256 acc[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) acc[r] = _mm256_setzero_ps();
  const int64_t stride = Format::bytes(w.cols);
  const uint8_t* code = weight_bytes(w) + row * stride;
  int64_t k = 0;
  for (; k + Format::kSpan <= w.cols; k += Format::kSpan) {
    format.template accumulate<kRows>(code + Format::bytes(k), stride, row, k, x + k, acc);
  }
  if (k < w.cols) {
    const int64_t rest = w.cols - k;
    float values[Format::kSpan];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      decode_row(w, format, row + r, k, rest, values);
      for (int64_t i = 0; i < rest; i += 8) {
        const __m256 factor = _mm256_maskload_ps(x + k + i, lane_mask(least(rest - i, 8)));
        acc[r] = _mm256_fmadd_ps(factor, _mm256_loadu_ps(values + i), acc[r]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r += 4) store_sums<(kRows < 4 ? kRows : 4)>(acc + r, out + r);
}

template <class Format>
void gemv(const float* x, const Weight& w, const Format& format, int64_t n0, int64_t n1, float* out) {
  int64_t n = n0;
  while (n < n1) {
    // Rows that are taken together share their FP8 scales.
    const int64_t rows = least(n1 - n, kBlock - n % kBlock);
    float* to = out + (n - n0);
    if (rows >= 8) {
      gemv_rows<8>(x, w, format, n, to);
      n += 8;
    } else if (rows >= 4) {
      gemv_rows<4>(x, w, format, n, to);
      n += 4;
    } else if (rows >= 2) {
      gemv_rows<2>(x, w, format, n, to);
      n += 2;
    } else {
      gemv_rows<1>(x, w, format, n, to);
      n += 1;
    }
  }
}

}  // namespace

void avx2_gemv(const float* x, const Weight& w, int64_t n0, int64_t n1, float* out) {
  float scales[256];
  avx2_scale_table(w, scales);
  with_format(w, scales, [&](const auto& format) { gemv(x, w, format, n0, n1, out); });
}

}  // namespace glint::ops::cpu
