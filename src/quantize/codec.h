// NVFP4 coding of BF16 weights at memory speed, one table of functions an instruction set; all give the same
// bits (quantization: "the algorithm for one projection", "fast and still exact: integer thresholds").
//
// A BF16 magnitude has 15 bits and w / s grows with it, so for each of the 126 scale bytes seven magnitudes
// decide the code: the smallest whose exact float32 quotient passes each bound. Coding then compares integers
// and divides nothing.
#pragma once

#include <array>
#include <cstdint>

#include "base/cpu_features.h"

namespace glint::quantize {

inline constexpr int64_t kBlock = 16;
/// BF16 magnitudes from here on are infinite or NaN.
inline constexpr uint16_t kBf16Infinity = 0x7F80;
/// The E4M3 bytes that a block scale may have: above zero, finite.
inline constexpr uint8_t kScaleMin = 0x01;
inline constexpr uint8_t kScaleMax = 0x7E;

/// What coding needs to know of one global scale.
struct Nvfp4Tables {
  /// row[scale byte]: for code i = 1..7 the largest magnitude that gets a smaller code: its low byte at [i],
  /// its high byte at [8 + i].
  alignas(64) std::array<std::array<uint8_t, 16>, 128> rows{};
  std::array<float, 128> step{};  // float32(value of the scale byte * global scale)
  float global_scale = 1.0F;
  float divisor = 6.0F;  // float32(6 * global scale)
  float normalizer =
      1.0F;  // a power of two that brings the tensor near 1, so that squared errors stay finite
  /// A negative weight may underflow to -0 and lose its sign: only the portable code handles that.
  bool may_underflow = false;
};

/// The tables of a global scale above zero.
Nvfp4Tables make_nvfp4_tables(float global_scale);

/// Sums over weights w and their decoded values v, in float64 over float32 lanes: lane i adds the elements i
/// of its blocks in order, at most kErrorBlocks blocks at a time, then the lanes are added in order. Scaled
/// back by normalizer^2.
struct ErrorSums {
  double power = 0;  // sum of w^2
  double error = 0;  // sum of (w - v)^2

  void add(const ErrorSums& other) {
    power += other.power;
    error += other.error;
  }
};
inline constexpr int64_t kErrorBlocks = 64;

struct Codec {
  /// amax[b] = largest magnitude of block b (BF16 bits without sign); returns the largest of all. A result of
  /// kBf16Infinity or more says that an infinity or a NaN is among them.
  uint16_t (*block_amax)(const uint16_t* weights, int64_t blocks, uint16_t* amax);

  /// Block scales by the maximum: e4m3(clamp(amax / divisor)), with a quotient of zero counted as 1.
  void (*max_scales)(const uint16_t* amax, int64_t blocks, const Nvfp4Tables& tables, uint8_t* scales);

  /// weights [blocks][16] -> packed [blocks][8] with the scales given; the low nibble is the even element.
  void (*encode)(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables, const uint8_t* scales,
                 uint8_t* packed);

  /// encode, and the squared error beside it.
  ErrorSums (*encode_with_error)(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables,
                                 const uint8_t* scales, uint8_t* packed);

  /// In: the scales of max_scales. Out: of each block's scale and its kSearchBelow lower and kSearchAbove
  /// higher neighbours the one with the smallest sum of squared errors (float32, pairs added as a tree), ties
  /// to the one nearest to the maximum's, then to the lower.
  void (*search_scales)(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables, uint8_t* scales);
};

inline constexpr int kSearchBelow = 3;
inline constexpr int kSearchAbove = 7;

/// The table of an instruction set of this machine.
const Codec& codec(Isa isa);

}  // namespace glint::quantize
