// Encoders of the two quantised weight formats, bit for bit: every step is one float32 operation in the order
// that the formats define (quantization: "the algorithm for one projection"; FP8 in 128x128 blocks).
#pragma once

#include <cstdint>

namespace glint {

inline constexpr int64_t kFp8BlockSize = 128;
inline constexpr int64_t kNvfp4BlockSize = 16;

/// One band of at most 128 rows: values [rows][cols] -> E4M3 codes [rows][cols] and scales [ceil(cols / 128)]
/// with scale = amax / 448 (1 for a block of zeros), code = e4m3(value / scale). Values must be finite.
void encode_fp8_band(const float* values, int64_t rows, int64_t cols, uint8_t* codes, float* scales);

/// weight_scale_2 of the tensors whose largest magnitude is `amax`: amax / 2688, or 1 if that is 0.
float nvfp4_global_scale(float amax);

/// values [count] -> E2M1 pairs [count / 2] (even element in the low nibble) and E4M3 block scales [count /
/// 16]. `count` is a multiple of 16. Ties go to the even code; a negative value that rounds to zero keeps its
/// sign.
void encode_nvfp4(const float* values, int64_t count, float global_scale, uint8_t* packed,
                  uint8_t* block_scales);

}  // namespace glint
