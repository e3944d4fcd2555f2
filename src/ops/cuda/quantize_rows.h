// Activations to FP8 for the products with FP8 weights.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/types.h"

namespace glint::ops::cuda {

/// bfloat16 rows in E4M3, a scale for each 128 values: scale = max(largest magnitude / 448, FLT_MIN), code =
/// nearest(value / scale), ties to even.
struct QuantizedRows {
  uint8_t* codes = nullptr;  // [rows][stride]
  float* scales = nullptr;   // [rows][scale_stride]
  int64_t rows = 0, cols = 0;
  int64_t stride = 0;        // bytes, a multiple of 16
  int64_t scale_stride = 0;  // ceil(cols / 128)
};

void quantize_rows(Activation x, const QuantizedRows& out, cudaStream_t stream);

/// The same of silu(gate) * up, rounded to bfloat16 first.
void swiglu_quantize_rows(Activation gate, Activation up, const QuantizedRows& out, cudaStream_t stream);

}  // namespace glint::ops::cuda
