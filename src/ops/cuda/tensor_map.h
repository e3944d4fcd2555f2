// Tensor maps of the bulk copy engine.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace glint::ops::cuda {

/// Matrices of bytes that the engine reads in tiles of 128 bytes by `tile_rows` rows; what lies outside reads
/// as zero. Strides are bytes, multiples of 16, like the address and row_bytes.
struct MatrixStack {
  const void* data = nullptr;
  int64_t row_bytes = 0, rows = 0, row_stride = 0;
  int64_t slices = 1, slice_stride = 0;
  int64_t blocks = 1, block_stride = 0;
};

/// Finds the driver's encoder; once before the first map is made.
void prepare_tensor_maps();

/// Throws internal if the driver refuses.
CUtensorMap tensor_map(const MatrixStack& stack, int tile_rows);

}  // namespace glint::ops::cuda
