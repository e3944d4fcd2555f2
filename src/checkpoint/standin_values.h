// Deterministic stand-in weights: a value is a pure function of the seed, the tensor's name and the element's
// row-major index (the oracle's weights.py describes them), so a checkpoint of any size can be made again bit
// for bit.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/safetensors.h"

namespace glint {

/// The values of one tensor: base + spread * u with u in [-1, 1) from a hash; base and spread depend on the
/// name's end and on the shape, so that no norm is 1, no bias 0, and activations keep their size from layer
/// to layer.
class StandinValues {
 public:
  StandinValues(std::string_view name, const Shape& shape, uint64_t seed);

  /// Elements first, first + 1, ... rounded to BF16 (double to float32 to BF16, nearest even each time).
  void fill_bf16(int64_t first, std::span<uint16_t> out) const;
  /// The same values as float32.
  void fill_rounded(int64_t first, std::span<float> out) const;
  /// Rounded to float32 only: e_score_correction_bias is stored so.
  void fill_f32(int64_t first, std::span<float> out) const;

  /// The parts of the rule, for a device that computes by it: element i comes from splitmix64's output for the
  /// state key + (i + 1) * 0x9E3779B97F4A7C15.
  [[nodiscard]] uint64_t key() const { return key_; }
  [[nodiscard]] double base() const { return base_; }
  [[nodiscard]] double spread() const { return spread_; }

 private:
  [[nodiscard]] float value(uint64_t state) const;
  [[nodiscard]] uint64_t state_before(int64_t first) const;

  uint64_t key_ = 0;
  double base_ = 0;
  double spread_ = 0;
};

}  // namespace glint
