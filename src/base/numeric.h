// Small number formats, scalar and exact. Vector code must agree with these bit for bit.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace glint {

/// Reads a T from an address of any alignment (safetensors promises none).
template <class T>
T load_unaligned(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

inline float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// float32 to bfloat16, nearest with ties to even; NaN stays NaN.
inline uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

/// The nearest value on the bfloat16 grid.
inline float round_to_bf16(float value) {
  return bf16_to_float(float_to_bf16(value));
}

/// FP8 E4M3 (the "fn" form: no infinities, 0x7F and 0xFF are NaN, largest finite 448).
inline float e4m3_to_float(uint8_t code) {
  const uint32_t exponent = (code >> 3) & 15U;
  const uint32_t mantissa = code & 7U;
  float magnitude;
  if ((code & 0x7FU) == 0x7FU) {
    magnitude = std::bit_cast<float>(0x7FC00000U);
  } else if (exponent == 0) {
    magnitude = static_cast<float>(mantissa) * 0x1p-9F;
  } else {
    magnitude = std::bit_cast<float>(((exponent + 120U) << 23) | (mantissa << 20));
  }
  return (code & 0x80U) != 0 ? -magnitude : magnitude;
}

/// float32 to FP8 E4M3: nearest, ties to even code, saturating at +-448; keeps the sign of zero; NaN gives
/// 0x7F.
inline uint8_t float_to_e4m3(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return 0x7F;
  const float a = std::bit_cast<float>(magnitude);
  if (a >= 448.0F) return sign | 0x7EU;
  if (a < 0x1p-6F) {
    // Below the normals the grid is uniform with step 2^-9: adding 1.5 * 2^14 rounds there, to even.
    const float shifted = a + 0x1.8p14F;
    return sign | static_cast<uint8_t>(std::bit_cast<uint32_t>(shifted) & 0xFU);
  }
  const uint32_t rounded = magnitude + 0x7FFFFU + ((magnitude >> 20) & 1U);
  return sign | static_cast<uint8_t>((rounded >> 20) - (120U << 3));
}

/// Values of the E2M1 codes 0..15 (FP4): bit 3 is the sign.
inline constexpr float kE2m1[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                    -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

}  // namespace glint
