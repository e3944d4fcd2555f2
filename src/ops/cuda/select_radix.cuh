// Pieces of the exact selection: scores as ordered keys, histograms, and the search for a threshold in them.
#pragma once

#include <cooperative_groups.h>

#include "ops/cuda/device_math.cuh"

namespace glint::ops::cuda {

namespace cg = cooperative_groups;

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kBins = 2048;  // of a digit
constexpr int kDigits = 3;
constexpr int kBoundBins = 4096;  // of the lower bound
constexpr int kBoundShift = 20;
constexpr int kPieces = 4;                 // of a block's scores
constexpr int kCandidates = 8 * kThreads;  // that one block finishes with
constexpr int kFewMax = 256;               // keys that are compared with each other
constexpr unsigned kBlocksMax = 16;        // of a cluster

__device__ __forceinline__ int digit_shift(int digit) {
  return digit == 0 ? 21 : digit == 1 ? 10 : 0;
}
__device__ __forceinline__ uint32_t digit_mask(int digit) {
  return digit == 2 ? 1023U : 2047U;
}

/// An unsigned key in the order of the scores.
__device__ __forceinline__ uint32_t key_of(float score) {
  if (isnan(score)) return 0;
  const uint32_t bits = __float_as_uint(score + 0.0F);  // + 0 turns -0 into +0
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

/// Inclusive sum over the block, by thread; warp_sums[31] becomes the whole.
__device__ __forceinline__ int block_scan(int value, int* warp_sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xFFFFFFFFU, value, step);
    if (lane >= step) value += other;
  }
  __syncthreads();
  if (lane == 31) warp_sums[warp] = value;
  __syncthreads();
  if (warp == 0) {
    int sum = warp_sums[lane];
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(0xFFFFFFFFU, sum, step);
      if (lane >= step) sum += other;
    }
    warp_sums[lane] = sum;
  }
  __syncthreads();
  return value + (warp > 0 ? warp_sums[warp - 1] : 0);
}

/// Many keys share a bin: one addition for those of a warp that do.
__device__ __forceinline__ void count_key(int* histogram, uint32_t bin) {
  const uint32_t active = __activemask();
  const uint32_t same = __match_any_sync(active, bin);
  if (static_cast<int>(threadIdx.x) % 32 == __ffs(static_cast<int>(same)) - 1)
    atomicAdd(&histogram[bin], __popc(same));
}

/// Waits for all blocks of the cluster.
__device__ __forceinline__ void sync_all(unsigned ranks) {
  if (ranks > 1) {
    cg::this_cluster().sync();
  } else {
    __syncthreads();
  }
}

struct Found {
  uint32_t bin;
  int wanted;  // of this bin's keys
  int keys;    // in this bin
};

struct Shared {
  alignas(16) int bins[kBoundBins];      // of this block: for the bound, then kFineBins for the end
  alignas(16) int all_bins[kBoundBins];  // for the bound, of all blocks
  alignas(16) int digits[kDigits][kBins];
  int warp_sums[kWarps];
  int counts[kPieces * kWarps];  // candidates of the pieces of a block
  int candidates;                // of this block
  int before[kBlocksMax + 1];    // of the blocks before, and of all
  Found found;
  int few;  // keys in a bin that are compared with each other
  uint2 few_keys[kFewMax];
  uint32_t threshold;
  int ties;
  int above, equal;  // scores of this block's part larger than the threshold, and equal to it
};

/// The bin that holds the wanted-th largest key, counting in the sum of the `ranks` histograms of the
/// cluster's blocks (1: in this block's alone). Every block that asks does the same. All bins together hold
/// `wanted`.
template <int kCount>
__device__ Found find_bin(int* histogram, unsigned ranks, int wanted, int* warp_sums, Found* found) {
  constexpr int kEach = kCount / kThreads;  // of a thread, in descending order from the top
  const int tid = static_cast<int>(threadIdx.x);
  const int low = kCount - kEach * (tid + 1);
  int counts[kEach] = {};
  if (ranks == 1) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) counts[i] = histogram[low + i];
  } else {
    const cg::cluster_group cluster = cg::this_cluster();
#pragma unroll 8
    for (unsigned rank = 0; rank < ranks; ++rank) {
      const int2* other = reinterpret_cast<const int2*>(cluster.map_shared_rank(histogram, rank) + low);
#pragma unroll
      for (int i = 0; i < kEach / 2; ++i) {
        const int2 pair = other[i];
        counts[2 * i] += pair.x;
        counts[2 * i + 1] += pair.y;
      }
    }
  }
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) sum += counts[i];
  const int upto = block_scan(sum, warp_sums);
  int before = upto - sum;
  if (before < wanted && wanted <= upto) {
#pragma unroll
    for (int i = kEach - 1; i >= 0; --i) {
      if (before < wanted && wanted <= before + counts[i]) {
        *found = {static_cast<uint32_t>(low + i), wanted - before, counts[i]};
      }
      before += counts[i];
    }
  }
  __syncthreads();
  return *found;
}

/// The scores of a row that a block looks at.
struct Segment {
  const float* scores;  // of the row
  int64_t begin, end;

  /// Keys of [i, i + 4); zeros behind the end.
  __device__ uint4 keys(int64_t i) const {
    if (i + 4 <= end) {
      const float4 v = *reinterpret_cast<const float4*>(scores + i);
      return {key_of(v.x), key_of(v.y), key_of(v.z), key_of(v.w)};
    }
    uint32_t keys[4] = {};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (i + k < end) keys[k] = key_of(scores[i + k]);
    }
    return {keys[0], keys[1], keys[2], keys[3]};
  }
};

}  // namespace glint::ops::cuda
