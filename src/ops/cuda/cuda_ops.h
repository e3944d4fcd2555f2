// The CUDA backend. An Activation element is a bfloat16 or, for float32, a float; all addresses that
// operations are given (ids, positions, pages, weights, caches) are the device's. Every operation is enqueued
// on one stream and returns at once, so a step can be captured as a graph; download() and upload() wait.
//
// Two things are the device's own:
//  - kv_b of absorb_query and expand_value is held as absorbed_layout() makes it;
//  - the table of experts() is known by the address of its first entry on the host (ExpertTables).
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <unordered_map>

#include "ops/declared_ops.h"
#include "ops/ops.h"

namespace glint::ops::cuda {

/// The device's copies of expert tables: [experts] of three Weights each.
using ExpertTables = std::unordered_map<const ExpertWeights*, const Weight*>;

/// Where the choices of the routers are counted: [experts] counts of a layer, known by its router's bias.
/// Layers that are not named are not counted.
struct CountedRouters {
  std::unordered_map<const float*, uint32_t*> counts;
  const int32_t* rows = nullptr;  // [1] how many of a step's first rows count
};

struct CudaOptions {
  /// FP8 weights meet activations in E4M3 with a scale for each 128 columns; otherwise bfloat16 activations
  /// (slowly: for comparisons). Under float32 weights are always decoded and activations never rounded.
  bool fp8_activations = true;
  /// A row's bits do not depend on the other rows of its step. Otherwise steps of more than 32 rows use
  /// kernels of this GPU's own that add in another order.
  bool batch_invariant = false;
  DeclaredLimits limits;
  const CountedRouters* counted = nullptr;  // must outlive the operations; null: none
};

/// `arena` and `tables` must outlive the result. With a measuring arena no device is needed or touched.
std::unique_ptr<Ops> make_cuda_ops(ComputeDType dtype, Arena& arena, const ExpertTables& tables,
                                   const CudaOptions& options, cudaStream_t stream);

/// Once per device before the first operation: raises the kernels' shared-memory limits.
void prepare_kernels();

/// kv_b [heads * (nope + v), kv_lora], in any format on the device, as two stacks of matrices in `out`, in
/// bfloat16 (float32 under float32): W_UK turned, [heads][kv_lora][nope], then W_UV, [heads][v][kv_lora]. The
/// values are those of the whole matrix, so that FP8's blocks are met at their global rows.
void absorbed_layout(const Weight& kv_b, int64_t heads, int64_t nope, int64_t v, ComputeDType dtype,
                     void* out, cudaStream_t stream);

}  // namespace glint::ops::cuda
