#include "quantize/codec.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/numeric.h"
#include "quantize/codec_isa.h"

namespace glint::quantize {

namespace {

/// Code i or more is reached where the quotient passes bound i; a tie goes to the even code.
struct Bound {
  float value;
  bool tie_passes;
};
constexpr std::array<Bound, 7> kBounds = {{{0.25F, false},
                                           {0.75F, true},
                                           {1.25F, false},
                                           {1.75F, true},
                                           {2.5F, false},
                                           {3.5F, true},
                                           {5.0F, false}}};

bool passes(uint32_t magnitude, float step, const Bound& bound) {
  const float quotient = bf16_to_float(static_cast<uint16_t>(magnitude)) / step;
  return bound.tie_passes ? quotient >= bound.value : quotient > bound.value;
}

/// The largest finite magnitude that does not pass; zero never passes. A first guess from the product is at
/// most a step away where both are normal numbers.
uint32_t largest_below(float step, const Bound& bound) {
  constexpr uint32_t kLargest = kBf16Infinity - 1U;
  const float product = bound.value * step;
  uint32_t magnitude = std::min(std::bit_cast<uint32_t>(product) >> 16, kLargest);
  while (magnitude > 0 && passes(magnitude, step, bound)) --magnitude;
  while (magnitude < kLargest && !passes(magnitude + 1, step, bound)) ++magnitude;
  return magnitude;
}

void fill_row(float step, std::array<uint8_t, 16>& row) {
  for (size_t code = 1; code <= kBounds.size(); ++code) {
    const uint32_t below = largest_below(step, kBounds[code - 1]);
    row[code] = static_cast<uint8_t>(below & 0xFFU);
    row[8 + code] = static_cast<uint8_t>(below >> 8);
  }
}

}  // namespace

Nvfp4Tables make_nvfp4_tables(float global_scale) {
  Nvfp4Tables tables;
  tables.global_scale = global_scale;
  tables.divisor = 6.0F * global_scale;
  for (int byte = kScaleMin; byte <= kScaleMax; ++byte) {
    const float step = e4m3_to_float(static_cast<uint8_t>(byte)) * global_scale;
    tables.step[static_cast<size_t>(byte)] = step;
    if (step > 0) fill_row(step, tables.rows[static_cast<size_t>(byte)]);
  }
  constexpr uint16_t kSmallest = 1;
  tables.may_underflow = bf16_to_float(kSmallest) / tables.step[kScaleMax] == 0.0F;
  const int exponent = std::clamp(std::ilogb(global_scale * 448.0F), -100, 100);
  tables.normalizer = std::ldexp(1.0F, -exponent);
  return tables;
}

const Codec& codec(Isa isa) {
  switch (isa) {
#ifdef GLINT_X86_64
    case Isa::avx512_bf16:
    case Isa::avx512:
      return avx512_codec();
    case Isa::avx2:
      return avx2_codec();
#endif
    default:
      return portable_codec();
  }
}

}  // namespace glint::quantize
