// Routing, and the bookkeeping of the routed experts, all on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/cuda/matmul.h"
#include "ops/ops.h"

namespace glint::ops::cuda {

inline constexpr int64_t kRouteExpertsMax = 1024;
inline constexpr int64_t kRouteChosenMax = 32;

/// How often each expert was chosen by the first rows of a step; the others only fill it up.
struct ChoiceCounts {
  uint32_t* counts = nullptr;     // [experts], added to; null: nothing is counted
  const int32_t* rows = nullptr;  // [1] how many rows count
};

/// As Ops; at most kRouteExpertsMax experts of which kRouteChosenMax are chosen.
void choose_experts(Floats logits, const float* bias, const RouteParams& params, Ints experts,
                    const ChoiceCounts& counted, cudaStream_t stream);
/// Halves each of `count` counts, rounding down.
void halve_counts(uint32_t* counts, int64_t count, cudaStream_t stream);
void weigh_experts(Floats logits, const float* bias, const RouteParams& params, Ints experts, Floats weights,
                   cudaStream_t stream);

/// The (token, slot) pairs grouped by expert, and cut into tiles of at most tile_rows pairs of one expert.
struct PairGroups {
  int32_t* row = nullptr;    // [pairs] token of the i-th pair in the order of experts
  int32_t* place = nullptr;  // [pairs] where pair (token, slot) went
  int32_t* used = nullptr;   // [1] tiles
  int32_t *expert = nullptr, *first = nullptr, *count = nullptr;  // [tiles_max]
  int64_t tiles_max = 0;
  int64_t tile_rows = 0;
};

/// The most tiles that `pairs` pairs over `experts` experts can make.
int64_t tiles_max(int64_t pairs, int64_t experts, int64_t tile_rows);

/// At most kRouteExpertsMax experts.
void group_pairs(Ints experts, int64_t experts_count, const PairGroups& groups, cudaStream_t stream);

/// y[t] = sum over j ascending of weights[t, j] * sums[place[t, j]], one fused multiply-add each.
void combine_pairs(const float* sums, int64_t stride, const int32_t* place, Floats weights, Floats y,
                   cudaStream_t stream);

}  // namespace glint::ops::cuda
