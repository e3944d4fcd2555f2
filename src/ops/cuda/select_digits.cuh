// The selection that always works: all blocks of a cluster count all scores of their row, digit by digit.
#pragma once

#include "ops/cuda/select_radix.cuh"

namespace glint::ops::cuda {

constexpr int kPerThread = 4;  // scores of a thread at a time

/// Writes the segment's share of the list in order, from list[at] on: all keys above the threshold and the
/// first `ties` keys equal to it.
__device__ inline void write_list(const Segment& segment, uint32_t threshold, int ties, int at, int32_t* list,
                                  Shared& s) {
  int ties_before = 0;
  int above_before = 0;
  for (int64_t first = segment.begin; first < segment.end; first += kThreads * kPerThread) {
    const int64_t i = first + static_cast<int64_t>(threadIdx.x) * kPerThread;
    const uint4 four = i < segment.end ? segment.keys(i) : uint4{};
    const uint32_t keys[kPerThread] = {four.x, four.y, four.z, four.w};
    int above = 0;
    int equal = 0;
    for (int k = 0; k < kPerThread; ++k) {
      if (i + k >= segment.end) continue;
      above += keys[k] > threshold;
      equal += keys[k] == threshold;
    }
    // Both counts in one scan: at most 4096 each.
    const int packed = block_scan(above << 16 | equal, s.warp_sums);
    const int total = s.warp_sums[31];
    int my_above = above_before + (packed >> 16) - above;
    int my_equal = ties_before + (packed & 0xFFFF) - equal;
    for (int k = 0; k < kPerThread; ++k) {
      if (i + k >= segment.end) break;
      const bool is_above = keys[k] > threshold;
      const bool is_equal = keys[k] == threshold;
      if (is_above || (is_equal && my_equal < ties)) {
        list[at + my_above + min(my_equal, ties)] = static_cast<int32_t>(i + k);
      }
      my_above += is_above;
      my_equal += is_equal;
    }
    above_before += total >> 16;
    ties_before += total & 0xFFFF;
  }
}

/// Called by all blocks of the row's cluster; s.digits must be zero.
__device__ inline void select_by_digits(const Segment& segment, unsigned rank, unsigned ranks, int topk,
                                        int32_t* list, Shared& s) {
  uint32_t prefix = 0;
  uint32_t mask = 0;
  int wanted = topk;
  int above = 0;  // of this thread's bins
  for (int digit = 0; digit < kDigits; ++digit) {
    const int shift = digit_shift(digit);
#pragma unroll 4
    for (int64_t i = segment.begin + static_cast<int64_t>(threadIdx.x) * kPerThread; i < segment.end;
         i += kThreads * kPerThread) {
      const uint4 four = segment.keys(i);
      const uint32_t keys[kPerThread] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int k = 0; k < kPerThread; ++k) {
        if (i + k < segment.end && (keys[k] & mask) == prefix) {
          count_key(s.digits[digit], keys[k] >> shift & digit_mask(digit));
        }
      }
    }
    sync_all(ranks);
    const Found found = find_bin<kBins>(s.digits[digit], ranks, wanted, s.warp_sums, &s.found);
    wanted = found.wanted;
    for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads) {
      if (static_cast<uint32_t>(bin) > found.bin) above += s.digits[digit][bin];
    }
    prefix |= found.bin << shift;
    mask |= digit_mask(digit) << shift;
    __syncthreads();
  }
  block_scan(above, s.warp_sums);
  if (threadIdx.x == 0) {
    s.above = s.warp_sums[31];
    s.equal = s.digits[kDigits - 1][prefix & digit_mask(kDigits - 1)];
  }
  sync_all(ranks);
  const cg::cluster_group cluster = cg::this_cluster();
  int above_before = 0;
  int equal_before = 0;
  for (unsigned other = 0; other < rank; ++other) {
    above_before += *cluster.map_shared_rank(&s.above, other);
    equal_before += *cluster.map_shared_rank(&s.equal, other);
  }
  const int ties = max(0, min(wanted - equal_before, s.equal));
  write_list(segment, prefix, ties, above_before + min(equal_before, wanted), list, s);
}

}  // namespace glint::ops::cuda
