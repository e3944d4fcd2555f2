// The matrix products in AVX-512 float32: kernels_loops.h and kernels_tiles.h with the formats of
// kernels_avx512_formats.h.
#include "ops/cpu/kernels_avx512_formats.h"
#include "ops/cpu/kernels_tiles.h"

namespace glint::ops::cpu {

namespace {

/// Codes times their scales, one rounding each.
void apply_scales(const FormatFp8& format, int64_t row, int64_t cols, float* out) {
  for (int64_t k = 0; k < cols; k += kBlock) {
    const __m512 scale = _mm512_set1_ps(format.scale(row, k));
    const int64_t end = least(cols, k + kBlock);
    for (int64_t i = k; i < end; i += 16) {
      const __mmask16 lanes = lanes16(least(end - i, 16));
      _mm512_mask_storeu_ps(out + i, lanes, _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, out + i), scale));
    }
  }
}

template <class Format>
void decode_rows(const Weight& w, const Format& format, int64_t row, int64_t count, float* out, int64_t ldo) {
  const int64_t whole = w.cols / Format::kSpan * Format::kSpan;
  const int64_t rest = w.cols - whole;
  float last[Format::kSpan];
  for (int64_t r = 0; r < count; ++r) {
    decode_row<Avx512>(w, format, row + r, 0, whole, out + r * ldo);
    if (rest != 0) {
      decode_row<Avx512>(w, format, row + r, whole, rest, last);
      __builtin_memcpy(out + r * ldo + whole, last, static_cast<size_t>(rest) * sizeof(float));
    }
    if constexpr (Format::kBlockScaled) apply_scales(format, row + r, w.cols, out + r * ldo);
  }
}

}  // namespace

void avx512_decode_rows(const Weight& w, int64_t row, int64_t count, float* out, int64_t ldo) {
  Nvfp4Scales scales;
  nvfp4_scales(w, &scales);
  with_format(w, scales, [&](const auto& format) { decode_rows(w, format, row, count, out, ldo); });
}

int64_t avx512_matmul_scratch_floats(int64_t /*k*/) {
  return many_scratch_floats<Avx512>();
}

void avx512_matmul(const float* x, int64_t ldx, int64_t M, const Weight& w, int64_t n0, int64_t n1,
                   float* out, int64_t ldo, bool /*x_is_bf16*/, float* scratch) {
  Nvfp4Scales scales;
  nvfp4_scales(w, &scales);
  if (M <= kFewRows) {
    const FewRows<Avx512> rows = {x, ldx, nullptr, 0};
    with_format(w, scales,
                [&](const auto& format) { multiply_few<Avx512>(rows, M, w, format, n0, n1, out, ldo); });
    return;
  }
  for (int64_t m = 0; m < M; m += kRowsMax) {
    const Matrix<Avx512> rows = {x + m * ldx, ldx};
    with_format(w, scales, [&](const auto& format) {
      multiply_many<Avx512>(rows, least(M - m, kRowsMax), w, format, n0, n1, out + m * ldo, ldo, scratch);
    });
  }
}

void avx512_dot(const float* x, int64_t ldx, int64_t M, const float* y, int64_t ldy, int64_t N, int64_t K,
                float* out, int64_t ldo) {
  dot_rows<Avx512>({x, ldx}, M, {y, ldy}, N, K, out, ldo);
}

}  // namespace glint::ops::cpu
