// Attention over the selected rows of the cache.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/types.h"

namespace glint::ops::cuda {

struct SparseAttention {
  Activation q;
  RowMap rows;
  Selection selection;
  CacheLayer cache;
  int64_t heads = 0, kv_lora = 0;
  float scale = 0;
  Activation o;
};

/// Whether the tensor-core kernel takes it: bfloat16, rows of 512 + 64 values, lists of up to 2,048
/// positions.
bool has_tensor_core_form(const SparseAttention& a, ComputeDType dtype);

/// Scratch of attend() in floats, as a function of sizes alone.
int64_t attention_scratch_floats(const SparseAttention& a, ComputeDType dtype);

/// As Ops::sparse_attention. The list is taken in groups of 128 positions; the groups' results are merged in
/// ascending order whether one block makes them all (many rows) or several share them (few rows).
void attend(const SparseAttention& a, ComputeDType dtype, float* scratch, cudaStream_t stream);

/// Raises the kernels' shared-memory limits; once per device, before anything is captured.
void prepare_attention();

// The plain kernel behind it, for any sizes: float32 sums in the order of the list.
void attend_plain(const SparseAttention& a, ComputeDType dtype, cudaStream_t stream);
void prepare_attention_plain();

}  // namespace glint::ops::cuda
