// Parts of glint-gpu-bench that stand in files of their own.
#pragma once

#include "bench.h"

namespace glint::gpu {

/// Loading a checkpoint of about 20 GB from the page cache, beside the rates of its two legs.
void bench_load(Bench& bench);

/// NVIDIA's own products of the dense shapes, checked and timed as ours are. cuBLASLt is loaded when it is
/// needed (LD_LIBRARY_PATH may name its folder); CUTLASS is there if it was built in (GLINT_CUTLASS).
void bench_cublaslt(Bench& bench);
void bench_cutlass(Bench& bench);

}  // namespace glint::gpu
