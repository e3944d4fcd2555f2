// The fast coders against the definition, on every instruction set of this machine.
#include "quantize/codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/numeric.h"
#include "tensor/encode.h"

namespace glint::quantize {
namespace {

struct Coded {
  std::vector<uint8_t> packed;
  std::vector<uint8_t> scales;
  ErrorSums sums;
  uint16_t amax = 0;
};

std::vector<Isa> isas() {
  std::vector<Isa> list;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (isa <= best_isa()) list.push_back(isa);
  }
  return list;
}

Coded coded(Isa isa, const std::vector<uint16_t>& weights, float global_scale, bool search = false) {
  const Codec& c = codec(isa);
  const auto blocks = static_cast<int64_t>(weights.size()) / kBlock;
  const Nvfp4Tables tables = make_nvfp4_tables(global_scale);
  Coded out;
  std::vector<uint16_t> amax(static_cast<size_t>(blocks));
  out.amax = c.block_amax(weights.data(), blocks, amax.data());
  out.scales.resize(amax.size());
  out.packed.resize(weights.size() / 2);
  c.max_scales(amax.data(), blocks, tables, out.scales.data());
  if (search) c.search_scales(weights.data(), blocks, tables, out.scales.data());
  c.encode(weights.data(), blocks, tables, out.scales.data(), out.packed.data());
  std::vector<uint8_t> again(out.packed.size());
  out.sums = c.encode_with_error(weights.data(), blocks, tables, out.scales.data(), again.data());
  EXPECT_EQ(again, out.packed) << isa_name(isa);
  return out;
}

/// The encoder of the tensor room divides, as the format's definition does.
Coded by_definition(const std::vector<uint16_t>& weights, float global_scale) {
  std::vector<float> values;
  for (const uint16_t bits : weights) values.push_back(bf16_to_float(bits));
  Coded out;
  out.packed.resize(weights.size() / 2);
  out.scales.resize(weights.size() / kBlock);
  encode_nvfp4(values.data(), static_cast<int64_t>(values.size()), global_scale, out.packed.data(),
               out.scales.data());
  return out;
}

uint16_t largest(const std::vector<uint16_t>& weights) {
  uint16_t amax = 0;
  for (const uint16_t bits : weights) amax = std::max(amax, static_cast<uint16_t>(bits & 0x7FFFU));
  return amax;
}

void expect_all_agree(const std::vector<uint16_t>& weights, float global_scale, const std::string& what) {
  const Coded wanted = by_definition(weights, global_scale);
  const Coded portable = coded(Isa::portable, weights, global_scale);
  const Coded searched = coded(Isa::portable, weights, global_scale, true);
  for (const Isa isa : isas()) {
    const Coded got = coded(isa, weights, global_scale);
    ASSERT_EQ(got.scales, wanted.scales) << isa_name(isa) << " " << what;
    ASSERT_EQ(got.packed, wanted.packed) << isa_name(isa) << " " << what;
    ASSERT_EQ(got.amax, largest(weights)) << isa_name(isa) << " " << what;
    ASSERT_EQ(std::bit_cast<uint64_t>(got.sums.power), std::bit_cast<uint64_t>(portable.sums.power)) << what;
    ASSERT_EQ(std::bit_cast<uint64_t>(got.sums.error), std::bit_cast<uint64_t>(portable.sums.error)) << what;
    const Coded search = coded(isa, weights, global_scale, true);
    ASSERT_EQ(search.scales, searched.scales) << isa_name(isa) << " " << what;
    ASSERT_EQ(search.packed, searched.packed) << isa_name(isa) << " " << what;
  }
}

float exact_scale(const std::vector<uint16_t>& weights) {
  return nvfp4_global_scale(bf16_to_float(largest(weights)));
}

std::vector<uint16_t> random_weights(std::mt19937_64& random, size_t blocks, int kind) {
  std::normal_distribution<float> gauss(0.0F, 0.03F);
  std::vector<uint16_t> weights(blocks * kBlock);
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto raw = static_cast<uint16_t>(random());
    switch (kind) {
      case 0:  // like a model's
        weights[i] = float_to_bf16(gauss(random));
        break;
      case 1:  // any finite pattern
        weights[i] = (raw & 0x7F80U) == 0x7F80U ? static_cast<uint16_t>(raw & 0x807FU) : raw;
        break;
      case 2:  // subnormals and zeros of both signs
        weights[i] = raw & 0x807FU;
        break;
      case 3:  // few mantissas around 1: quotients that lie on the bounds
        weights[i] = static_cast<uint16_t>((raw & 0x8000U) | (0x3E00U + (raw % 64U) * 16U));
        break;
      default:  // mostly -0 and one value a block
        weights[i] = i % kBlock == raw % kBlock ? float_to_bf16(gauss(random)) : 0x8000U;
    }
  }
  return weights;
}

TEST(Codec, EveryInstructionSetCodesAsTheDefinition) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 40; ++round) {
    for (int kind = 0; kind < 5; ++kind) {
      const auto weights = random_weights(random, 1 + random() % 150, kind);
      expect_all_agree(weights, exact_scale(weights), cat("kind ", kind, " round ", round));
    }
  }
}

TEST(Codec, SharedAndForeignGlobalScales) {
  // A scale that another tensor's maximum decides, up to where blocks fall below the smallest scale; and
  // scales at the ends of the range.
  std::mt19937_64 random(2);
  for (int round = 0; round < 40; ++round) {
    const auto weights = random_weights(random, 33, round % 5);
    const float own = exact_scale(weights);
    for (const float factor : {1.0009765625F, 3.7F, 1000.0F, 1e7F}) {
      if (std::isfinite(own * factor * 2688)) {
        expect_all_agree(weights, own * factor, cat("round ", round, " factor ", factor));
      }
    }
  }
  for (const uint16_t bits : {1U, 2U, 0x7FU, 0x80U, 0x7F7FU}) {
    const std::vector<uint16_t> weights(64, static_cast<uint16_t>(bits));
    expect_all_agree(weights, exact_scale(weights), cat("all ", bits));
  }
  expect_all_agree(random_weights(random, 40, 2), nvfp4_global_scale(bf16_to_float(0x7F7F)), "underflow");
}

TEST(Codec, EveryMagnitudeAgainstEveryScaleByte) {
  // Block 0 of each set of blocks fixes the scale byte; the others run through all BF16 magnitudes near it.
  std::mt19937_64 random(3);
  for (const float global_scale : {1.0F, 9.3e-5F, 7.7e-6F}) {
    const Nvfp4Tables tables = make_nvfp4_tables(global_scale);
    for (int byte = kScaleMin; byte <= kScaleMax; ++byte) {
      std::vector<uint16_t> weights;
      const uint32_t middle = std::bit_cast<uint32_t>(tables.step[static_cast<size_t>(byte)]) >> 16;
      for (int offset = -512; offset < 512; ++offset) {
        const auto m = static_cast<uint16_t>(static_cast<int>(middle) + offset);
        weights.push_back(static_cast<uint16_t>(m | (random() % 2 << 15)));
      }
      const std::vector<uint8_t> scales(weights.size() / kBlock, static_cast<uint8_t>(byte));
      std::vector<uint8_t> wanted(weights.size() / 2);
      const auto blocks = static_cast<int64_t>(scales.size());
      codec(Isa::portable).encode(weights.data(), blocks, tables, scales.data(), wanted.data());
      for (const Isa isa : isas()) {
        std::vector<uint8_t> got(wanted.size());
        codec(isa).encode(weights.data(), blocks, tables, scales.data(), got.data());
        ASSERT_EQ(got, wanted) << isa_name(isa) << " scale byte " << byte;
      }
    }
  }
}

TEST(Codec, SeesEveryInfinityAndNan) {
  std::mt19937_64 random(4);
  for (const Isa isa : isas()) {
    for (const uint16_t bad : {0x7F80U, 0xFF80U, 0x7FC0U, 0xFFFFU, 0x7F81U}) {
      for (int round = 0; round < 50; ++round) {
        auto weights = random_weights(random, 9, 1);
        weights[random() % weights.size()] = bad;
        std::vector<uint16_t> amax(9);
        EXPECT_GE(codec(isa).block_amax(weights.data(), 9, amax.data()), kBf16Infinity) << isa_name(isa);
      }
    }
  }
}

TEST(Codec, TheSearchLowersTheError) {
  std::mt19937_64 random(5);
  const auto weights = random_weights(random, 4096, 0);
  const Coded plain = coded(best_isa(), weights, exact_scale(weights));
  const Coded searched = coded(best_isa(), weights, exact_scale(weights), true);
  const double gain = 1 - std::sqrt(searched.sums.error / plain.sums.error);
  std::printf("relative RMSE %.4f by the maximum, %.4f by the search: %.1f %% less\n",
              std::sqrt(plain.sums.error / plain.sums.power),
              std::sqrt(searched.sums.error / searched.sums.power), 100 * gain);
  EXPECT_NEAR(std::sqrt(plain.sums.error / plain.sums.power), 0.095, 0.002);
  EXPECT_GT(gain, 0.08);
}

}  // namespace
}  // namespace glint::quantize
