#include "tensor/encode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/numeric.h"

namespace glint {

namespace {

constexpr float kE4m3Max = 448.0F;
constexpr float kE2m1Max = 6.0F;

// The loops below are branch-free over finite values, so that the compiler turns them into vector code.

uint32_t magnitude_bits(float value) {
  return std::bit_cast<uint32_t>(value) & 0x7FFFFFFFU;
}

/// The largest magnitude; finite magnitudes are ordered as their bits are.
float largest_magnitude(const float* values, int64_t count) {
  int32_t amax = 0;
  for (int64_t i = 0; i < count; ++i) amax = std::max(amax, static_cast<int32_t>(magnitude_bits(values[i])));
  return std::bit_cast<float>(amax);
}

/// float_to_e4m3 of base/numeric.h for finite values.
uint8_t finite_to_e4m3(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = std::min(bits & 0x7FFFFFFFU, std::bit_cast<uint32_t>(kE4m3Max));
  const uint32_t normal = ((magnitude + 0x7FFFFU + ((magnitude >> 20) & 1U)) >> 20) - (120U << 3);
  // Below the normals the grid is uniform with step 2^-9: adding 1.5 * 2^14 rounds there, to even.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0x1.8p14F) & 0xFU;
  const uint32_t code = magnitude < std::bit_cast<uint32_t>(0x1p-6F) ? subnormal : normal;
  return static_cast<uint8_t>(code | ((bits >> 24) & 0x80U));
}

/// The bounds between neighbouring E2M1 values; a tie on a bound goes to the even code. The sign of a zero is
/// dropped.
uint8_t float_to_e2m1(float value) {
  const float a = std::fabs(value);
  const int code = static_cast<int>(a > 0.25F) + static_cast<int>(a >= 0.75F) + static_cast<int>(a > 1.25F) +
                   static_cast<int>(a >= 1.75F) + static_cast<int>(a > 2.5F) + static_cast<int>(a >= 3.5F) +
                   static_cast<int>(a > 5.0F);
  return static_cast<uint8_t>(code + 8 * static_cast<int>(value < 0));
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
      for (int64_t i = 0; i < width; ++i) out[i] = finite_to_e4m3(in[i] / scale);
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
    const uint8_t scale = finite_to_e4m3(std::clamp(raw, 0x1p-9F, kE4m3Max));
    block_scales[block] = scale;
    const float step = e4m3_to_float(scale) * global_scale;
    std::array<uint8_t, kNvfp4BlockSize> codes{};
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = float_to_e2m1(in[i] / step);
    uint8_t* const out = packed + block * kNvfp4BlockSize / 2;
    for (size_t i = 0; i < codes.size() / 2; ++i) {
      out[i] = static_cast<uint8_t>(codes[2 * i] | (codes[2 * i + 1] << 4));
    }
  }
}

}  // namespace glint
