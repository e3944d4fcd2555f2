// Writing rows into the paged cache.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/types.h"

namespace glint::ops::cuda {

/// As Ops::write_cache: the same bytes that the CPU writes. All addresses are the device's.
void write_cache(Activation x, const RowMap& rows, const CacheLayer& cache, ComputeDType dtype,
                 cudaStream_t stream);

}  // namespace glint::ops::cuda
