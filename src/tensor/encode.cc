#include "tensor/encode.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/numeric.h"

namespace glint {

namespace {

constexpr float kE4m3Max = 448.0F;
constexpr float kE2m1Max = 6.0F;

float largest_magnitude(const float* values, int64_t count) {
  float amax = 0;
  for (int64_t i = 0; i < count; ++i) amax = std::max(amax, std::fabs(values[i]));
  return amax;
}

/// The bounds between neighbouring E2M1 values; a tie on a bound goes to the even code.
uint8_t float_to_e2m1(float value) {
  const float a = std::fabs(value);
  const int code = static_cast<int>(a > 0.25F) + static_cast<int>(a >= 0.75F) + static_cast<int>(a > 1.25F) +
                   static_cast<int>(a >= 1.75F) + static_cast<int>(a > 2.5F) + static_cast<int>(a >= 3.5F) +
                   static_cast<int>(a > 5.0F);
  return static_cast<uint8_t>(code | (value < 0 ? 8 : 0));
}

}  // namespace

void encode_fp8_band(const float* values, int64_t rows, int64_t cols, uint8_t* codes, float* scales) {
  GLINT_CHECK(rows <= kFp8BlockSize);
  for (int64_t first = 0; first < cols; first += kFp8BlockSize) {
    const int64_t width = std::min(kFp8BlockSize, cols - first);
    float amax = 0;
    for (int64_t row = 0; row < rows; ++row) {
      amax = std::max(amax, largest_magnitude(values + row * cols + first, width));
    }
    const float scale = amax > 0 ? amax / kE4m3Max : 1.0F;
    scales[first / kFp8BlockSize] = scale;
    for (int64_t row = 0; row < rows; ++row) {
      const float* const in = values + row * cols + first;
      uint8_t* const out = codes + row * cols + first;
      for (int64_t i = 0; i < width; ++i) out[i] = float_to_e4m3(in[i] / scale);
    }
  }
}

float nvfp4_global_scale(float amax) {
  const float scale = amax / (kE2m1Max * kE4m3Max);
  return scale == 0 ? 1.0F : scale;
}

void encode_nvfp4(const float* values, int64_t count, float global_scale, uint8_t* packed,
                  uint8_t* block_scales) {
  GLINT_CHECK(count % kNvfp4BlockSize == 0);
  const float divisor = kE2m1Max * global_scale;
  for (int64_t block = 0; block < count / kNvfp4BlockSize; ++block) {
    const float* const in = values + block * kNvfp4BlockSize;
    float raw = largest_magnitude(in, kNvfp4BlockSize) / divisor;
    if (raw == 0) raw = 1.0F;
    const uint8_t scale = float_to_e4m3(std::clamp(raw, 0x1p-9F, kE4m3Max));
    block_scales[block] = scale;
    const float step = e4m3_to_float(scale) * global_scale;
    uint8_t* const out = packed + block * kNvfp4BlockSize / 2;
    for (int64_t i = 0; i < kNvfp4BlockSize / 2; ++i) {
      const uint8_t low = float_to_e2m1(in[2 * i] / step);
      const uint8_t high = float_to_e2m1(in[2 * i + 1] / step);
      out[i] = static_cast<uint8_t>(low | (high << 4));
    }
  }
}

}  // namespace glint
