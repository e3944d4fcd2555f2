#include "base/numeric.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace glint {
namespace {

// The definition of E4M3, independent of the bit tricks: sign, 4 exponent bits with bias 7, 3 mantissa bits.
double e4m3_by_definition(int code) {
  const int exponent = (code >> 3) & 15;
  const double mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa / 8, -6) : std::ldexp(1 + mantissa / 8, exponent - 7);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

TEST(Numeric, DecodesEveryE4m3Code) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(value, static_cast<float>(e4m3_by_definition(code))) << code;
    }
  }
}

// Nearest by search over all codes, ties to the even code.
int nearest_e4m3(double magnitude) {
  int best = 0;
  for (int code = 1; code < 0x7F; ++code) {
    const double gap = std::abs(e4m3_by_definition(code) - magnitude);
    const double best_gap = std::abs(e4m3_by_definition(best) - magnitude);
    if (gap < best_gap || (gap == best_gap && code % 2 == 0)) best = code;
  }
  return best;
}

TEST(Numeric, EncodesE4m3ToTheNearestCodeTiesToEven) {
  std::vector<double> values = {0, 1e-9, 448, 449, 463.9, 464, 1e9, 0x1p-10, 0x1.8p-10, 0x1p-9};
  for (int code = 0; code < 0x7E; ++code) {
    const double low = e4m3_by_definition(code);
    const double high = e4m3_by_definition(code + 1);
    for (const double part : {0.0, 0.25, 0.5, 0.75}) values.push_back(low + part * (high - low));
    values.push_back(std::nextafter(static_cast<float>((low + high) / 2), 0.0F));
    values.push_back(std::nextafter(static_cast<float>((low + high) / 2), 1e9F));
  }
  for (const double value : values) {
    const int expected = nearest_e4m3(std::min(value, 448.0));
    EXPECT_EQ(float_to_e4m3(static_cast<float>(value)), expected) << value;
    EXPECT_EQ(float_to_e4m3(-static_cast<float>(value)), expected | 0x80) << value;
  }
  EXPECT_EQ(float_to_e4m3(std::numeric_limits<float>::quiet_NaN()), 0x7F);
}

TEST(Numeric, RoundsToBf16TiesToEven) {
  EXPECT_EQ(float_to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F808000U)), 0x3F80);  // a tie: down to even
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F818000U)), 0x3F82);  // a tie: up to even
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7F800001U)))));
}

}  // namespace
}  // namespace glint
