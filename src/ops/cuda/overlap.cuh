// Kernels that start while the kernel before them in the stream still runs (programmatic dependent launch).
//
// A kernel launched by launch_early() may run as soon as every block of the one before has called
// let_next_start() or ended. Until its own wait_for_earlier() returns it may touch only what no earlier
// kernel writes: weights, for one. Every block must call that before it ends, because the kernel after it
// takes this one's end as the end of all before.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "ops/cuda/check.h"

namespace glint::ops::cuda {

/// Returns when all earlier kernels have ended and what they wrote can be read.
__device__ __forceinline__ void wait_for_earlier() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

/// What comes next may take the places of blocks that end.
__device__ __forceinline__ void let_next_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), dim3 grid, unsigned threads, size_t shared_bytes,
                  cudaStream_t stream, const char* what, Arguments&&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), what);
}

}  // namespace glint::ops::cuda
