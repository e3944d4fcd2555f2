// Weights to float32 (AVX2).
#include "ops/cpu/kernels_avx2_formats.h"

namespace glint::ops::cpu {

namespace {

/// Not on any hot path, and the one place where the sign of zero counts: by definition.
void decode_nvfp4_row(const Weight& w, const Nvfp4Scales& scales, int64_t row, float* out) {
  const uint8_t* pairs = weight_bytes(w) + row * w.cols / 2;
  const uint8_t* block = w.block_scale + row * (w.cols / kGroup);
  const float unscale = scales.plain ? 0x1p25F : 1.0F;
  for (int64_t c = 0; c < w.cols; ++c) {
    const uint8_t code = c % 2 == 0 ? pairs[c / 2] & 15 : pairs[c / 2] >> 4;
    out[c] = kE2m1Value[code] * (scales.value[block[c / kGroup]] * unscale);
  }
}

/// Codes times their scales, one rounding each.
void apply_scales(const FormatFp8& format, int64_t row, int64_t cols, float* out) {
  for (int64_t k = 0; k < cols; k += kBlock) {
    const float scale = format.scale(row, k);
    const __m256 scales = _mm256_set1_ps(scale);
    const int64_t count = least(cols - k, kBlock);
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
      _mm256_storeu_ps(out + k + i, _mm256_mul_ps(_mm256_loadu_ps(out + k + i), scales));
    for (; i < count; ++i) out[k + i] *= scale;
  }
}

template <class Format>
void decode_rows(const Weight& w, const Format& format, int64_t row, int64_t count, float* out, int64_t ldo) {
  const int64_t whole = w.cols / Format::kSpan * Format::kSpan;
  const int64_t rest = w.cols - whole;
  float last[Format::kSpan];
  for (int64_t r = 0; r < count; ++r) {
    decode_row<Avx2>(w, format, row + r, 0, whole, out + r * ldo);
    if (rest != 0) {
      decode_row<Avx2>(w, format, row + r, whole, rest, last);
      __builtin_memcpy(out + r * ldo + whole, last, static_cast<size_t>(rest) * sizeof(float));
    }
    if constexpr (Format::kBlockScaled) apply_scales(format, row + r, w.cols, out + r * ldo);
  }
}

}  // namespace

void avx2_decode_rows(const Weight& w, int64_t row, int64_t count, float* out, int64_t ldo) {
  Nvfp4Scales scales;
  nvfp4_scales(w, &scales);
  if (w.format == WeightFormat::nvfp4) {
    for (int64_t r = 0; r < count; ++r) decode_nvfp4_row(w, scales, row + r, out + r * ldo);
    return;
  }
  with_format(w, scales, [&](const auto& format) { decode_rows(w, format, row, count, out, ldo); });
}

}  // namespace glint::ops::cpu
