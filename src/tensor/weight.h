// A matrix of the checkpoint as it is stored: a view, nothing is copied or converted.
#pragma once

#include <cstdint>

namespace glint {

enum class WeightFormat {
  f32,        // data: float[rows][cols]
  bf16,       // data: bf16[rows][cols]
  fp8_block,  // data: e4m3[rows][cols]; value = code * scale[row / 128][col / 128]
  nvfp4,      // data: e2m1 pairs [rows][cols / 2], low nibble = even column;
              // value = code * (block_scale[row][col / 16] * global_scale)
};

/// y = x W^T with W [rows = out][cols = in], row-major, without gaps between rows. Addresses may have any
/// alignment. Every value is defined as ONE float32 rounding of code * s, where s is `scale` (fp8_block) or
/// the float32 product block_scale * global_scale (nvfp4; with `global_divides`, the float32 quotient
/// block_scale / global_scale).
struct Weight {
  WeightFormat format = WeightFormat::bf16;
  int64_t rows = 0;
  int64_t cols = 0;
  const void* data = nullptr;
  const void* scale = nullptr;           // fp8_block: float32 [ceil(rows / 128)][ceil(cols / 128)]
  const uint8_t* block_scale = nullptr;  // nvfp4: e4m3 [rows][cols / 16]
  float global_scale = 1.0F;  // nvfp4: ModelOpt's weight_scale_2, or compressed-tensors' weight_global_scale
  bool global_divides = false;  // nvfp4 of compressed-tensors: the global scale divides

  [[nodiscard]] bool empty() const { return data == nullptr; }
};

}  // namespace glint
