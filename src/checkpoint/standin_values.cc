#include "checkpoint/standin_values.h"

#include <cmath>

#include "base/error.h"
#include "base/numeric.h"

namespace glint {

namespace {

constexpr uint64_t kFnvOffset = 0xCBF29CE484222325U;
constexpr uint64_t kFnvPrime = 0x100000001B3U;
constexpr uint64_t kSeedFactor = 0xD1342543DE82EF95U;
constexpr uint64_t kGoldenStep = 0x9E3779B97F4A7C15U;  // splitmix64's increment

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = kFnvOffset;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kFnvPrime;
  return hash;
}

uint64_t splitmix_finish(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

}  // namespace

StandinValues::StandinValues(std::string_view name, const Shape& shape, uint64_t seed)
    : key_(fnv1a(name) ^ (seed * kSeedFactor)) {
  if (name.ends_with("k_norm.bias")) {
    spread_ = 0.5;
  } else if (name.ends_with("norm.weight")) {
    base_ = 1.0;
    spread_ = 0.5;
  } else if (name.ends_with("e_score_correction_bias")) {
    spread_ = 0.3;
  } else if (name.ends_with("embed_tokens.weight")) {
    spread_ = 1.0;
  } else {
    GLINT_CHECK(shape.size() == 2);
    const double fan_in = std::sqrt(3.0 / static_cast<double>(shape[1]));
    const double gain = name.ends_with("lm_head.weight")    ? 3.0
                        : name.ends_with("mlp.gate.weight") ? 1.5
                                                            : 1.2;
    spread_ = gain * fan_in;
  }
}

uint64_t StandinValues::state_before(int64_t first) const {
  return key_ + static_cast<uint64_t>(first) * kGoldenStep;
}

float StandinValues::value(uint64_t state) const {
  // 53 bits as a double in [0, 2^53), exactly; the detour over int64_t is the faster conversion.
  const auto bits = static_cast<double>(static_cast<int64_t>(splitmix_finish(state) >> 11));
  const double uniform = bits * 0x1p-52 - 1.0;
  return static_cast<float>(base_ + spread_ * uniform);
}

void StandinValues::fill_bf16(int64_t first, std::span<uint16_t> out) const {
  uint64_t state = state_before(first);
  for (uint16_t& element : out) element = float_to_bf16(value(state += kGoldenStep));
}

void StandinValues::fill_rounded(int64_t first, std::span<float> out) const {
  uint64_t state = state_before(first);
  for (float& element : out) element = round_to_bf16(value(state += kGoldenStep));
}

void StandinValues::fill_f32(int64_t first, std::span<float> out) const {
  uint64_t state = state_before(first);
  for (float& element : out) element = value(state += kGoldenStep);
}

}  // namespace glint
