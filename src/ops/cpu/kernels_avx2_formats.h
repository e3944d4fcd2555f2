// The four weight formats as the AVX2 loops see them. Internal linkage throughout, see kernels_avx2.h.
//
// A format has: kSpan, the columns it decodes at a time; bytes(count), what they occupy; span(), which
// decodes one span
// (`count` < kSpan only says how many columns are real, all kSpan codes are readable); and accumulate(),
// which adds x * W over one whole span for kRows rows without storing what it decoded. Both give the same
// float32 values.
#pragma once

#include "ops/cpu/kernels_avx2_decode.h"

namespace glint::ops::cpu {

// NOLINTNEXTLINE(google-build-namespaces): internal linkage is the point.
namespace {

GLINT_INLINE const uint8_t* weight_bytes(const Weight& w) {
  return static_cast<const uint8_t*>(w.data);
}

struct FormatF32 {
  static constexpr int64_t kSpan = 8;
  GLINT_INLINE static int64_t bytes(int64_t count) { return count * 4; }
  GLINT_INLINE FormatF32(const Weight& /*w*/, const float* /*scales*/) {}

  GLINT_INLINE void span(const uint8_t* code, int64_t, int64_t, int64_t, float* out) const {
    _mm256_storeu_ps(out, load_as<__m256>(code));
  }
  template <int kRows>
  GLINT_INLINE void accumulate(const uint8_t* code, int64_t stride, int64_t, int64_t, const float* x,
                               __m256* acc) const {
    const __m256 factor = _mm256_loadu_ps(x);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
      acc[r] = _mm256_fmadd_ps(factor, load_as<__m256>(code + r * stride), acc[r]);
  }
};

struct FormatBf16 {
  static constexpr int64_t kSpan = 8;
  GLINT_INLINE static int64_t bytes(int64_t count) { return count * 2; }
  GLINT_INLINE FormatBf16(const Weight& /*w*/, const float* /*scales*/) : shuffle(bf16_shuffle()) {}

  GLINT_INLINE void span(const uint8_t* code, int64_t, int64_t, int64_t, float* out) const {
    _mm256_storeu_ps(out, widen_bf16(code, shuffle));
  }
  template <int kRows>
  GLINT_INLINE void accumulate(const uint8_t* code, int64_t stride, int64_t, int64_t, const float* x,
                               __m256* acc) const {
    const __m256 factor = _mm256_loadu_ps(x);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
      acc[r] = _mm256_fmadd_ps(factor, widen_bf16(code + r * stride, shuffle), acc[r]);
  }

  __m256i shuffle;
};

/// A span is one scale block. Rows of one accumulate() share their scales: they must not cross a multiple of
/// 128.
struct FormatFp8 {
  static constexpr int64_t kSpan = kBlock;
  GLINT_INLINE static int64_t bytes(int64_t count) { return count; }
  GLINT_INLINE FormatFp8(const Weight& weight, const float* /*scales*/)
      : w(&weight), constants(fp8_constants()) {}

  GLINT_INLINE void span(const uint8_t* code, int64_t row, int64_t k, int64_t, float* out) const {
    const float scale = fp8_scale(*w, row, k);
    if (!fp8_scale_is_plain(scale) || !fp8_has_no_nan(fp8_largest(code, constants.zero))) {
      for (int64_t i = 0; i < kSpan; ++i) out[i] = kE4m3.value[code[i]] * scale;
      return;
    }
    const __m256 factor = _mm256_set1_ps(scale * 0x1p120F);
    for (int64_t i = 0; i < kSpan; i += 16) {
      __m256 low;
      __m256 high;
      widen_fp8(code + i, constants, factor, &low, &high);
      _mm256_storeu_ps(out + i, low);
      _mm256_storeu_ps(out + i + 8, high);
    }
  }

  template <int kRows>
  GLINT_INLINE void accumulate(const uint8_t* code, int64_t stride, int64_t row, int64_t k, const float* x,
                               __m256* acc) const {
    const float scale = fp8_scale(*w, row, k);
    __m256i largest = constants.zero;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) largest = fp8_largest(code + r * stride, largest);
    if (!fp8_scale_is_plain(scale) || !fp8_has_no_nan(largest)) {
      accumulate_slowly<kRows>(code, stride, row, k, x, acc);
      return;
    }
    const __m256 factor = _mm256_set1_ps(scale * 0x1p120F);
    for (int64_t i = 0; i < kSpan; i += 16) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        __m256 low;
        __m256 high;
        widen_fp8(code + r * stride + i, constants, factor, &low, &high);
        acc[r] = _mm256_fmadd_ps(low, _mm256_loadu_ps(x + i), acc[r]);
        acc[r] = _mm256_fmadd_ps(high, _mm256_loadu_ps(x + i + 8), acc[r]);
      }
    }
  }

  template <int kRows>
  __attribute__((noinline)) void accumulate_slowly(const uint8_t* code, int64_t stride, int64_t row,
                                                   int64_t k, const float* x, __m256* acc) const {
    float decoded[kSpan];
    for (int r = 0; r < kRows; ++r) {
      span(code + r * stride, row + r, k, kSpan, decoded);
      for (int64_t i = 0; i < kSpan; i += 8) {
        acc[r] = _mm256_fmadd_ps(_mm256_loadu_ps(decoded + i), _mm256_loadu_ps(x + i), acc[r]);
      }
    }
  }

  const Weight* w;
  Fp8Constants constants;
};

struct FormatNvfp4 {
  static constexpr int64_t kSpan = 32;
  GLINT_INLINE static int64_t bytes(int64_t count) { return count / 2; }
  GLINT_INLINE FormatNvfp4(const Weight& weight, const float* table)
      : w(&weight), scales(table), constants(nvfp4_constants()) {}

  GLINT_INLINE __m256 scale(int64_t row, int64_t k) const {
    return _mm256_set1_ps(scales[w->block_scale[row * (w->cols / kGroup) + k / kGroup]]);
  }
  GLINT_INLINE void span(const uint8_t* code, int64_t row, int64_t k, int64_t count, float* out) const {
    __m256 value[4];
    widen_nvfp4(code, constants, value);
    const __m256 first = scale(row, k);
    const __m256 second = count > kGroup ? scale(row, k + kGroup) : first;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      _mm256_storeu_ps(out + 8 * i, _mm256_mul_ps(value[i], i < 2 ? first : second));
  }
  template <int kRows>
  GLINT_INLINE void accumulate(const uint8_t* code, int64_t stride, int64_t row, int64_t k, const float* x,
                               __m256* acc) const {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      __m256 value[4];
      widen_nvfp4(code + r * stride, constants, value);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        value[i] = _mm256_mul_ps(value[i], scale(row + r, k + 8 * i));
        acc[r] = _mm256_fmadd_ps(value[i], _mm256_loadu_ps(x + 8 * i), acc[r]);
      }
    }
  }

  const Weight* w;
  const float* scales;
  Nvfp4Constants constants;
};

/// Columns [k, k + count) of a row, padded with zeros to a multiple of 8; k a multiple of kSpan.
template <class Format>
GLINT_INLINE void decode_row(const Weight& w, const Format& format, int64_t row, int64_t k, int64_t count,
                             float* out) {
  const uint8_t* code = weight_bytes(w) + Format::bytes(row * w.cols + k);
  int64_t done = 0;
  for (; done + Format::kSpan <= count; done += Format::kSpan) {
    format.span(code + Format::bytes(done), row, k + done, Format::kSpan, out + done);
  }
  const int64_t rest = count - done;
  if (rest == 0) return;
  uint8_t padded[Format::kSpan * 4] = {};
  float values[Format::kSpan];
  __builtin_memcpy(padded, code + Format::bytes(done), static_cast<size_t>(Format::bytes(rest)));
  format.span(padded, row, k + done, rest, values);
  for (int64_t i = 0; i < rest; i += 8) {
    // The padding is +0 whatever the scale: 0 * inf must not get in.
    const __m256 value =
        _mm256_and_ps(_mm256_loadu_ps(values + i), _mm256_castsi256_ps(lane_mask(least(rest - i, 8))));
    _mm256_storeu_ps(out + done + i, value);
  }
}

/// Calls body(format) with the format of `w`.
template <class Body>
GLINT_INLINE void with_format(const Weight& w, const float* scales, const Body& body) {
  switch (w.format) {
    case WeightFormat::f32:
      body(FormatF32(w, scales));
      break;
    case WeightFormat::bf16:
      body(FormatBf16(w, scales));
      break;
    case WeightFormat::fp8_block:
      body(FormatFp8(w, scales));
      break;
    case WeightFormat::nvfp4:
      body(FormatNvfp4(w, scales));
      break;
  }
}

}  // namespace

}  // namespace glint::ops::cpu
