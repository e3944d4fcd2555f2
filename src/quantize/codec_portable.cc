#include <algorithm>
#include <cmath>

#include "base/numeric.h"
#include "quantize/codec_isa.h"
#include "quantize/codec_loops.h"

namespace glint::quantize {

namespace {

uint16_t portable_block_amax(const uint16_t* weights, int64_t blocks, uint16_t* amax) {
  uint16_t all = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    uint16_t largest = 0;
    for (int64_t i = 0; i < kBlock; ++i) {
      largest = std::max(largest, static_cast<uint16_t>(weights[block * kBlock + i] & 0x7FFFU));
    }
    amax[block] = largest;
    all = std::max(all, largest);
  }
  return all;
}

void portable_search_scales(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables,
                            uint8_t* scales) {
  search_scales_loop(weights, blocks, tables, scales);
}

void portable_max_scales(const uint16_t* amax, int64_t blocks, const Nvfp4Tables& tables, uint8_t* scales) {
  max_scales_loop(amax, blocks, tables.divisor, scales);
}

/// By the definition: a division, then the bounds.
uint8_t code_of(uint16_t weight, float step) {
  const float quotient = bf16_to_float(weight) / step;
  const float a = std::fabs(quotient);
  const int code = static_cast<int>(a > 0.25F) + static_cast<int>(a >= 0.75F) + static_cast<int>(a > 1.25F) +
                   static_cast<int>(a >= 1.75F) + static_cast<int>(a > 2.5F) + static_cast<int>(a >= 3.5F) +
                   static_cast<int>(a > 5.0F);
  return static_cast<uint8_t>(code + 8 * static_cast<int>(quotient < 0));
}

void encode_block(const uint16_t* weights, float step, uint8_t* packed) {
  for (int64_t pair = 0; pair < kBlock / 2; ++pair) {
    packed[pair] =
        static_cast<uint8_t>(code_of(weights[2 * pair], step) | (code_of(weights[2 * pair + 1], step) << 4));
  }
}

void portable_encode(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables,
                     const uint8_t* scales, uint8_t* packed) {
  for (int64_t block = 0; block < blocks; ++block) {
    encode_block(weights + block * kBlock, tables.step[scales[block]], packed + block * kBlock / 2);
  }
}

ErrorSums portable_encode_with_error(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables,
                                     const uint8_t* scales, uint8_t* packed) {
  ErrorSums sums;
  for (int64_t first = 0; first < blocks; first += kErrorBlocks) {
    std::array<float, kBlock> power{};
    std::array<float, kBlock> error{};
    for (int64_t block = first; block < std::min(blocks, first + kErrorBlocks); ++block) {
      const uint16_t* const in = weights + block * kBlock;
      uint8_t* const out = packed + block * kBlock / 2;
      const float step = tables.step[scales[block]];
      const float scaled_step = step * tables.normalizer;
      encode_block(in, step, out);
      for (size_t i = 0; i < kBlock; ++i) {
        const float w = std::fabs(bf16_to_float(in[i])) * tables.normalizer;
        const float v = kE2m1[(out[i / 2] >> (4 * (i % 2))) & 7U] * scaled_step;
        power[i] += w * w;
        error[i] += (w - v) * (w - v);
      }
    }
    sums.add({sum_of_lanes(power.data()), sum_of_lanes(error.data())});
  }
  return unscaled(sums, tables.normalizer);
}

}  // namespace

const Codec& portable_codec() {
  static constexpr Codec kCodec = {portable_block_amax, portable_max_scales, portable_encode,
                                   portable_encode_with_error, portable_search_scales};
  return kCodec;
}

}  // namespace glint::quantize
