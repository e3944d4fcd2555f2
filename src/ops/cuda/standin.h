// Stand-in weights made on the device: the values of checkpoint/standin_values.h in every stored form, bit
// for bit as tensor/encode.h stores them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/weight.h"

namespace glint::ops::cuda {

/// Element i (row-major) is base + spread * u with u in [-1, 1) of splitmix64's state key + (i + 1) * its
/// increment: in float64 without fused operations, rounded to float32 and then to BF16.
struct StandinRule {
  uint64_t key = 0;
  double base = 0;
  double spread = 0;
};

/// Writes all of `to` (bf16, fp8_block or nvfp4; addresses of the device, aligned to 16 bytes). NVFP4 takes
/// to.global_scale as given. Runs on `stream`, does not wait. Throws internal if the launch fails, or on
/// another format.
void make_standin(const StandinRule& rule, const Weight& to, cudaStream_t stream);

/// Raises *amax (device; a finite magnitude of float32, 0 at first) to the largest magnitude of elements
/// [0, count): NVFP4's global scale comes from it. Runs on `stream`, does not wait.
void largest_standin(const StandinRule& rule, int64_t count, float* amax, cudaStream_t stream);

}  // namespace glint::ops::cuda
