// One tensor from its stored form to another: decoding to BF16, coding to NVFP4 and FP8 blocks, with the
// errors that coding makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quantize/codec.h"
#include "quantize/options.h"

namespace glint::quantize {

/// What coding one tensor did to it.
struct CodingStats {
  double power = 0;              // sum of squared weights
  double error = 0;              // sum of squared errors
  double error_of_max = 0;       // the same with the scales of the maximum (equal without a search)
  float amax = 0;                // largest magnitude
  int64_t subnormal_scales = 0;  // NVFP4: block scales below 2^-6, which some kernels clip
  bool coded = false;

  void add(const CodingStats& other);
  [[nodiscard]] bool all_zero() const { return coded && amax == 0; }
  /// sqrt(error / power); 0 for a tensor of zeros.
  [[nodiscard]] double relative_rmse() const;
};

/// weight_scale_2 of tensors whose largest magnitude is `amax`; 1 if that is 0.
float global_scale_of(float amax, GlobalScale mode);

/// FP8 codes and scales [ceil(rows / 128)][ceil(cols / 128)] of whole bands -> BF16 (one rounding to float32,
/// one to BF16).
void decode_fp8(const std::byte* codes, const float* scales, int64_t rows, int64_t cols, uint16_t* out);

/// NVFP4 rows -> BF16: float32(value * float32(scale * global)), rounded to BF16.
void decode_nvfp4(const std::byte* packed, const std::byte* scales, float global_scale, int64_t rows,
                  int64_t cols, uint16_t* out);

/// Largest magnitudes of all blocks and of the tensor [rows][cols]. Throws bad_input naming `tensor`, row and
/// column of the first infinity or NaN.
uint16_t find_amax(const Codec& codec, std::span<const uint16_t> weights, int64_t cols,
                   const std::string& tensor, std::vector<uint16_t>& amax);

/// Throws as find_amax; `row` is the first row's number in the tensor.
void check_finite(std::span<const uint16_t> weights, int64_t row, int64_t cols, const std::string& tensor);

/// Codes weights [count] with the block maxima that find_amax gave.
CodingStats code_nvfp4(const Codec& codec, std::span<const uint16_t> weights, std::span<const uint16_t> amax,
                       float global_scale, ScaleSearch search, uint8_t* packed, uint8_t* scales);

/// BF16 rows (whole bands of 128, but for the tensor's last) -> FP8 codes and scales. `row` is the first
/// row's number in the tensor, for errors. Throws as find_amax.
CodingStats code_fp8(std::span<const uint16_t> weights, int64_t row, int64_t cols, const std::string& tensor,
                     uint8_t* codes, float* scales);

}  // namespace glint::quantize
