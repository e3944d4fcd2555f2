// Weights to float32 (AVX2).
#include "ops/cpu/kernels_avx2_formats.h"

namespace glint::ops::cpu {

void avx2_scale_table(const Weight& w, float* table) {
  if (w.format == WeightFormat::nvfp4) nvfp4_scale_table(w, table);
}

void avx2_decode_panel(const Weight& w, const float* scales, int64_t row, int64_t rows, int64_t k0,
                       int64_t count, float* out, int64_t ldo) {
  with_format(w, scales, [&](const auto& format) {
    for (int64_t r = 0; r < rows; ++r) decode_row(w, format, row + r, k0, count, out + r * ldo);
  });
}

void avx2_decode_rows(const Weight& w, int64_t row, int64_t count, float* out, int64_t ldo) {
  float scales[256];
  avx2_scale_table(w, scales);
  const int64_t whole = w.cols / kChunk * kChunk;
  const int64_t rest = w.cols - whole;
  float last[kChunk];
  for (int64_t r = 0; r < count; ++r) {
    avx2_decode_panel(w, scales, row + r, 1, 0, whole, out + r * ldo, 0);
    if (rest == 0) continue;
    avx2_decode_panel(w, scales, row + r, 1, whole, rest, last, 0);
    __builtin_memcpy(out + r * ldo + whole, last, static_cast<size_t>(rest) * sizeof(float));
  }
}

}  // namespace glint::ops::cpu
