#include "tensor/encode.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "base/file.h"
#include "base/json.h"
#include "base/numeric.h"

namespace glint {
namespace {

uint32_t hex(const Json& text) {
  return static_cast<uint32_t>(std::stoul(text.get<std::string>(), nullptr, 16));
}

std::vector<uint8_t> hex_bytes(const Json& text) {
  const auto digits = text.get<std::string>();
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

Json vectors() {
  return parse_json(read_file(std::filesystem::path(GLINT_TEST_DATA) / "tensor/nvfp4-vectors.json"),
                    "vectors");
}

/// The vectors come from two independent implementations (rational arithmetic and ModelOpt's own sequence).
TEST(EncodeNvfp4, AgreesWithTheVectors) {
  const Json all = vectors();
  ASSERT_EQ(all.at("blocks").size(), 40U);
  for (const Json& block : all.at("blocks")) {
    SCOPED_TRACE(block.at("name").get<std::string>());
    std::vector<float> values;
    for (const Json& bits : block.at("w_bf16"))
      values.push_back(bf16_to_float(static_cast<uint16_t>(hex(bits))));
    const float global =
        nvfp4_global_scale(bf16_to_float(static_cast<uint16_t>(hex(block.at("group_amax_bf16")))));
    EXPECT_EQ(std::bit_cast<uint32_t>(global), hex(block.at("weight_scale_2_f32")));
    std::vector<uint8_t> packed(8);
    uint8_t scale = 0;
    encode_nvfp4(values.data(), 16, global, packed.data(), &scale);
    EXPECT_EQ(scale, hex(block.at("weight_scale_e4m3")));
    EXPECT_EQ(packed, hex_bytes(block.at("packed_u8")));
  }
}

TEST(EncodeNvfp4, GlobalScales) {
  const Json all = vectors();
  for (const Json& entry : all.at("global_scale")) {
    const float amax = bf16_to_float(static_cast<uint16_t>(hex(entry.at("amax_bf16"))));
    EXPECT_EQ(std::bit_cast<uint32_t>(nvfp4_global_scale(amax)), hex(entry.at("exact_f32")));
  }
  EXPECT_EQ(nvfp4_global_scale(0), 1.0F);
}

/// The nearest of the 127 finite magnitudes by search over all of them, ties to the even code.
uint8_t nearest_e4m3(float value) {
  const double wanted = std::fabs(static_cast<double>(value));
  int best = 0;
  double best_distance = INFINITY;
  for (int code = 0; code < 127; ++code) {
    const double magnitude = code < 8 ? code * 0x1p-9 : std::ldexp(8 + code % 8, code / 8 - 10);
    const double distance = std::fabs(magnitude - wanted);
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
      best = code;
      best_distance = distance;
    }
  }
  return static_cast<uint8_t>(best | (std::signbit(value) ? 0x80 : 0));
}

TEST(EncodeFp8, CodesAreTheNearest) {
  // With 448 in the block the scale is exactly 1, so codes are those of the values themselves.
  std::mt19937 random(1);
  std::vector<float> values = {448.0F,   0.0F,      -0.0F,    464.0F - 17, 1e-30F,
                               0x1p-10F, 0x1.8p-9F, -0x1p-6F, 447.9F};
  for (int code = 0; code < 126; ++code) {  // every midpoint between neighbours, and its two float neighbours
    const float middle =
        (e4m3_to_float(static_cast<uint8_t>(code)) + e4m3_to_float(static_cast<uint8_t>(code + 1))) / 2;
    for (const float value : {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 500.0F)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  while (values.size() < 128 * 100) {
    values.push_back(std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random),
                                static_cast<int>(random() % 20) - 11));
  }
  for (size_t first = 0; first < values.size(); first += 128) values[first] = 448.0F;
  std::vector<uint8_t> codes(values.size());
  std::vector<float> scales(1);
  for (size_t first = 0; first < values.size(); first += 128) {
    encode_fp8_band(&values[first], 1, 128, &codes[first], scales.data());
    ASSERT_EQ(scales[0], 1.0F);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(codes[i], nearest_e4m3(values[i])) << values[i];
    ASSERT_EQ(codes[i], float_to_e4m3(values[i])) << values[i];
  }
}

TEST(EncodeFp8, PartialBlocksAndZeros) {
  // 3 rows of 130 columns: one full block column and one of two columns, which holds only zeros.
  std::vector<float> values(3 * 130, 0.0F);
  values[1 * 130 + 7] = -14.0F;
  values[2 * 130 + 127] = 3.5F;
  std::vector<uint8_t> codes(values.size(), 0xAA);
  std::vector<float> scales(2);
  encode_fp8_band(values.data(), 3, 130, codes.data(), scales.data());
  EXPECT_EQ(scales[0], 14.0F / 448.0F);
  EXPECT_EQ(scales[1], 1.0F);
  EXPECT_EQ(codes[1 * 130 + 7], 0xFE);  // -448
  EXPECT_EQ(e4m3_to_float(codes[2 * 130 + 127]), 112.0F);
  EXPECT_EQ(codes[2 * 130 + 129], 0);
}

}  // namespace
}  // namespace glint
