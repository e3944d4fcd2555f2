// The indexer on the device: scores of keys, and the exact choice of the largest.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/types.h"

namespace glint::ops::cuda {

/// scores[r * stride + s] = sum over h of scale * w[r, h] * max(q[r, h] . key[s], 0) for s in [0,
/// position[r]], for the rows [first, first + count) of the step; the rest of `scores` is left alone.
/// context: the largest position + 1 that the rows may have.
void score_keys(Activation q, Floats w, float scale, const RowMap& rows, const CacheLayer& keys,
                int64_t heads, int64_t first, int64_t count, float* scores, int64_t stride,
                ComputeDType dtype, cudaStream_t stream);

/// Of rows [first, first + count): the min(topk, position + 1) positions with the largest scores in ascending
/// order; among equal scores the lowest positions; -0 equals +0; NaN counts as the smallest. `scores` may be
/// null if rows.context_max <= topk; the stride is a multiple of 4.
void select_largest(const float* scores, int64_t stride, const RowMap& rows, int64_t first, int64_t count,
                    int64_t topk, const Selection& out, cudaStream_t stream);

/// Raises the kernels' shared-memory limits; once per device, before anything is captured.
void prepare_select();

}  // namespace glint::ops::cuda
