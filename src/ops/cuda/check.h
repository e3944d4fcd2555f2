// CUDA's status codes as errors. Free of third-party headers, like everything in this folder.
#pragma once

#include <cuda_runtime_api.h>

#include "base/error.h"

namespace glint::ops::cuda {

/// Throws internal with `what` and CUDA's own words unless the status is success.
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail(ErrorKind::internal, "CUDA: ", what, ": ", cudaGetErrorString(status));
}

}  // namespace glint::ops::cuda
