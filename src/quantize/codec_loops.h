// What the files of codec() share. Everything here has internal linkage and is inlined, because each file is
// compiled for its own instruction set: a shared symbol could run on a machine without it.
#pragma once

#include <cstring>

#include "quantize/codec.h"

#define GLINT_CODEC_INLINE inline __attribute__((always_inline))

namespace glint::quantize {

// NOLINTNEXTLINE(google-build-namespaces): internal linkage is the point.
namespace {

GLINT_CODEC_INLINE uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

GLINT_CODEC_INLINE float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// max_scales without branches, so that the compiler makes vector code of it.
GLINT_CODEC_INLINE void max_scales_loop(const uint16_t* amax, int64_t blocks, float divisor,
                                        uint8_t* scales) {
  for (int64_t block = 0; block < blocks; ++block) {
    const float quotient = float_of(static_cast<uint32_t>(amax[block]) << 16) / divisor;
    float raw = quotient == 0.0F ? 1.0F : quotient;
    raw = raw < 0x1p-9F ? 0x1p-9F : raw;
    raw = raw > 448.0F ? 448.0F : raw;
    const uint32_t bits = bits_of(raw);
    const uint32_t normal = ((bits + 0x7FFFFU + ((bits >> 20) & 1U)) >> 20) - (120U << 3);
    // Below the normals the grid is uniform with step 2^-9: adding 1.5 * 2^14 rounds there, to even.
    const uint32_t subnormal = bits_of(raw + 0x1.8p14F) & 0xFU;
    scales[block] = static_cast<uint8_t>(raw < 0x1p-6F ? subnormal : normal);
  }
}

/// The squared error of one block with one scale. The codes come from the row of thresholds: each threshold
/// passed adds the step to the next E2M1 value, exactly.
GLINT_CODEC_INLINE float block_error(const int32_t* magnitudes, const float* values,
                                     const Nvfp4Tables& tables, int scale) {
  const uint8_t* const row = &tables.rows[0][0] + 16 * scale;
  int32_t below[8];
  for (int code = 1; code < 8; ++code) below[code] = row[code] | (row[8 + code] << 8);
  const float step = (&tables.step[0])[scale] * tables.normalizer;
  float error[kBlock];
  for (int i = 0; i < kBlock; ++i) {
    const int32_t m = magnitudes[i];
    float value = m > below[1] ? 0.5F : 0.0F;
    value += m > below[2] ? 0.5F : 0.0F;
    value += m > below[3] ? 0.5F : 0.0F;
    value += m > below[4] ? 0.5F : 0.0F;
    value += m > below[5] ? 1.0F : 0.0F;
    value += m > below[6] ? 1.0F : 0.0F;
    value += m > below[7] ? 2.0F : 0.0F;
    const float gap = values[i] - value * step;
    error[i] = gap * gap;
  }
  for (int half = kBlock / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) error[i] += error[i + half];
  }
  return error[0];
}

GLINT_CODEC_INLINE void search_scales_loop(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables,
                                           uint8_t* scales) {
  for (int64_t block = 0; block < blocks; ++block) {
    int32_t magnitudes[kBlock];
    float values[kBlock];
    for (int i = 0; i < kBlock; ++i) {
      magnitudes[i] = weights[block * kBlock + i] & 0x7FFF;
      values[i] = float_of(static_cast<uint32_t>(magnitudes[i]) << 16) * tables.normalizer;
    }
    const int start = scales[block];
    int best = start;
    float least = block_error(magnitudes, values, tables, start);
    for (int distance = 1; distance <= kSearchAbove; ++distance) {
      for (const int scale : {start - distance, start + distance}) {
        if (scale < kScaleMin || scale > kScaleMax || scale < start - kSearchBelow) continue;
        const float error = block_error(magnitudes, values, tables, scale);
        if (error < least) {
          least = error;
          best = scale;
        }
      }
    }
    scales[block] = static_cast<uint8_t>(best);
  }
}

/// The lanes of an error sum, added in order.
GLINT_CODEC_INLINE double sum_of_lanes(const float* lanes) {
  double sum = 0;
  for (int lane = 0; lane < kBlock; ++lane) sum += static_cast<double>(lanes[lane]);
  return sum;
}

GLINT_CODEC_INLINE ErrorSums unscaled(ErrorSums sums, float normalizer) {
  const double factor = 1.0 / (static_cast<double>(normalizer) * static_cast<double>(normalizer));
  sums.power *= factor;
  sums.error *= factor;
  return sums;
}

}  // namespace

}  // namespace glint::quantize
