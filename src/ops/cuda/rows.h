// The operations that go through rows element by element, and the norms: launchers on device memory. Elements
// of an Activation are bfloat16 or float32, as `dtype` says. All run on `stream` and do not wait.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/ops.h"

namespace glint::ops::cuda {

void embed(const int32_t* ids, const Weight& table, Activation y, ComputeDType dtype, cudaStream_t stream);
void rms_norm(Activation x, const float* weight, float eps, Activation y, ComputeDType dtype,
              cudaStream_t stream);
void layer_norm(Activation x, const float* weight, const float* bias, float eps, Activation y,
                ComputeDType dtype, cudaStream_t stream);

inline constexpr int64_t kRopePairsMax = 128;
/// dim / 2 at most kRopePairsMax.
void rope(Activation x, int64_t heads, int64_t head_dim, int64_t first, int64_t dim, double theta,
          RopePairs pairs, const int32_t* position, ComputeDType dtype, cudaStream_t stream);

void swiglu(Activation gate, Activation up, Activation y, ComputeDType dtype, cudaStream_t stream);
void add_floats(Floats y, Floats x, cudaStream_t stream);
void add_floats(Floats y, Activation x, ComputeDType dtype, cudaStream_t stream);
void add_activation(Activation y, Activation x, ComputeDType dtype, cudaStream_t stream);
/// y[i] = x[rows[i]], or x[i] if rows is null.
void gather_rows(Activation x, const int32_t* rows, Activation y, ComputeDType dtype, cudaStream_t stream);
void gather_selection(const Selection& x, const int32_t* rows, const Selection& y, cudaStream_t stream);

/// Puts the rotated part of every head's query behind its absorbed values: y[t, h, kv_lora + i] = q[t, h,
/// nope + i].
void copy_rope_part(Activation q, int64_t heads, int64_t nope, int64_t rope, int64_t kv_lora, Activation y,
                    ComputeDType dtype, cudaStream_t stream);

}  // namespace glint::ops::cuda
