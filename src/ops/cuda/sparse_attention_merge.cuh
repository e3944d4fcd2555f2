// Merging what the groups of a row gave: in ascending order, by the same products and sums whether one block
// has made them all or many have.
#pragma once

#include "ops/cuda/overlap.cuh"
#include "ops/cuda/sparse_attention.h"
#include "ops/cuda/sparse_attention_tiles.cuh"

namespace glint::ops::cuda {

constexpr int64_t kListMax = 2048;  // positions whose places fit into a block's shared memory
constexpr int kGroupsMax = kListMax / kGroup;

struct Pieces {  // of one row, head and group
  float* o;      // [rows][heads][groups][512]
  float2* ends;  // [rows][heads][groups]: largest score and sum
};

__device__ __forceinline__ float merged(float whole, float keep, float piece, float take) {
  return __fadd_rn(__fmul_rn(whole, keep), __fmul_rn(piece, take));
}
/// Merges a group's (largest, sum) into the whole: the factors of both.
__device__ __forceinline__ void merge_factors(float2 ends, float2& whole, float& keep, float& take) {
  const float now = fmaxf(whole.x, ends.x);
  keep = expf(whole.x - now);
  take = expf(ends.x - now);
  whole = {now, merged(whole.y, keep, ends.y, take)};
}

/// By one block a row and head.
static __global__ void __launch_bounds__(kLatent / 4)
    merge_kernel(SparseAttention a, Pieces pieces, int piece_groups) {
  const int64_t row = blockIdx.x;
  const int64_t head = blockIdx.y;
  // Written before the attention began, which waited for it.
  const int groups = (a.selection.count[row] + kGroup - 1) / kGroup;
  const int64_t first = (row * a.heads + head) * piece_groups;
  wait_for_earlier();
  float whole[4] = {};
  float2 whole_ends{-INFINITY, 0};
  float2 ends[kGroupsMax];
  float4 parts[kGroupsMax];
#pragma unroll
  for (int i = 0; i < kGroupsMax; ++i) {
    if (i >= groups) continue;
    ends[i] = pieces.ends[first + i];
    parts[i] = reinterpret_cast<const float4*>(pieces.o + (first + i) * kLatent)[threadIdx.x];
  }
#pragma unroll
  for (int i = 0; i < kGroupsMax; ++i) {
    if (i >= groups) continue;
    float keep;
    float take;
    merge_factors(ends[i], whole_ends, keep, take);
    whole[0] = merged(whole[0], keep, parts[i].x, take);
    whole[1] = merged(whole[1], keep, parts[i].y, take);
    whole[2] = merged(whole[2], keep, parts[i].z, take);
    whole[3] = merged(whole[3], keep, parts[i].w, take);
  }
  auto* o = static_cast<__nv_bfloat16*>(a.o.data) + row * a.o.stride + head * kLatent + threadIdx.x * 4;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    *reinterpret_cast<__nv_bfloat162*>(o + i) =
        __floats2bfloat162_rn(__fdiv_rn(whole[i], whole_ends.y), __fdiv_rn(whole[i + 1], whole_ends.y));
  }
}

}  // namespace glint::ops::cuda
