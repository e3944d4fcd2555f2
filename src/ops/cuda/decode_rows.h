// Stored weights to float32 on the device: the definition that every CUDA kernel which reads weights must
// agree with.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/weight.h"

namespace glint::ops::cuda {

/// out[r * ldo + c] = value of W[row + r][c] for r in [0, count), c in [0, W.cols), exactly as Weight defines
/// it (one float32 rounding; E4M3's NaN codes stay NaN). All addresses of W and `out` are the device's; data
/// and scales need the alignment of their own element type. Runs on `stream`, does not wait. Throws internal
/// if the launch fails.
void decode_rows(const Weight& W, int64_t row, int64_t count, float* out, int64_t ldo, cudaStream_t stream);

}  // namespace glint::ops::cuda
