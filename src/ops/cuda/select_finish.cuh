// The end of the selection, by one block: the list from the candidates of all blocks of a cluster.
#pragma once

#include "ops/cuda/select_radix.cuh"

namespace glint::ops::cuda {

constexpr int kEach = kCandidates / kThreads;
constexpr int kFineBins = 2048;
constexpr int kFineShift = 13;

/// A thread's neighbouring candidates of all that the cluster has.
struct Own {
  uint32_t keys[kEach];
  uint32_t positions[kEach];
  int count;
};

__device__ __forceinline__ void load_own(uint2* candidates, unsigned ranks, const Shared& s, Own& own) {
  const int all = s.before[ranks];
  const int each = (all + kThreads - 1) / kThreads;
  const int first = static_cast<int>(threadIdx.x) * each;
  own.count = max(0, min(each, all - first));
  unsigned rank = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    own.keys[i] = own.positions[i] = 0;
    if (i >= own.count) continue;
    while (first + i >= s.before[rank + 1]) ++rank;
    const uint2* source = ranks == 1 ? candidates : cg::this_cluster().map_shared_rank(candidates, rank);
    const uint2 one = source[first + i - s.before[rank]];
    own.keys[i] = one.x;
    own.positions[i] = one.y;
  }
}

/// Finds the topk-th largest key and how many of its equals are wanted, digit by digit; s.digits must be
/// zero.
__device__ inline void find_by_digits(const Own& own, int topk, Shared& s) {
  uint32_t prefix = 0;
  uint32_t mask = 0;
  int wanted = topk;
  for (int digit = 0; digit < kDigits; ++digit) {
    const int shift = digit_shift(digit);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (i < own.count && (own.keys[i] & mask) == prefix) {
        count_key(s.digits[digit], own.keys[i] >> shift & digit_mask(digit));
      }
    }
    __syncthreads();
    const Found found = find_bin<kBins>(s.digits[digit], 1, wanted, s.warp_sums, &s.found);
    wanted = found.wanted;
    prefix |= found.bin << shift;
    mask |= digit_mask(digit) << shift;
  }
  if (threadIdx.x == 0) {
    s.threshold = prefix;
    s.ties = wanted;
  }
}

/// The same from narrow bins above the bound, and comparing all keys of one bin with each other. False if
/// they are too many. s.bins and s.few must be zero.
__device__ inline bool find_by_comparing(const Own& own, uint32_t bound, int topk, Shared& s) {
  const auto bin_of = [&](uint32_t key) {
    return min((key - bound) >> kFineShift, static_cast<uint32_t>(kFineBins - 1));
  };
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (i < own.count) atomicAdd(&s.bins[bin_of(own.keys[i])], 1);
  }
  __syncthreads();
  const Found found = find_bin<kFineBins>(s.bins, 1, topk, s.warp_sums, &s.found);
  if (found.keys > kFewMax) return false;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (i < own.count && bin_of(own.keys[i]) == found.bin)
      s.few_keys[atomicAdd(&s.few, 1)] = {own.keys[i], own.positions[i]};
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < found.keys) {
    const uint2 mine = s.few_keys[threadIdx.x];
    int larger_keys = 0;
    int before = 0;  // equal keys at lower positions
    for (int i = 0; i < found.keys; ++i) {
      const uint2 other = s.few_keys[i];
      larger_keys += other.x > mine.x;
      before += other.x == mine.x && other.y < mine.y;
    }
    if (larger_keys + before == found.wanted - 1) {
      s.threshold = mine.x;
      s.ties = before + 1;
    }
  }
  return true;
}

/// Writes the list: the keys above the threshold and the first s.ties of those equal to it.
__device__ inline void write_own(const Own& own, int32_t* list, Shared& s) {
  const uint32_t threshold = s.threshold;
  const int ties = s.ties;
  int above = 0;
  int equal = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    above += i < own.count && own.keys[i] > threshold;
    equal += i < own.count && own.keys[i] == threshold;
  }
  const int upto = block_scan(above << 16 | equal, s.warp_sums);
  int my_above = (upto >> 16) - above;
  int my_equal = (upto & 0xFFFF) - equal;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (i >= own.count) continue;
    const bool is_equal = own.keys[i] == threshold;
    if (own.keys[i] > threshold || (is_equal && my_equal < ties)) {
      list[my_above + min(my_equal, ties)] = static_cast<int32_t>(own.positions[i]);
    }
    my_above += own.keys[i] > threshold;
    my_equal += is_equal;
  }
}

}  // namespace glint::ops::cuda
