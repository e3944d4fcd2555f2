// Exact radix selection. A row belongs to a cluster of blocks that share their histograms. A block's scores
// are looked at once a digit and once more to write the list in order; where they fit they wait in shared
// memory.
#include <cooperative_groups.h>

#include <algorithm>

#include "ops/cuda/check.h"
#include "ops/cuda/device_math.cuh"
#include "ops/cuda/select.h"

namespace glint::ops::cuda {

namespace {

namespace cg = cooperative_groups;

constexpr int kThreads = 1024;
constexpr int kBins = 2048;
constexpr int kDigits = 3;
constexpr unsigned kBlocksMax = 8;  // of a cluster
constexpr int kPerThread = 4;       // scores of a thread at a time
constexpr int kKept = 16384;        // scores of a block that fit into shared memory

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

struct Shared {
  alignas(16) int histogram[kDigits][kBins];
  int warp_sums[32];
  int above;  // scores of this block's segment larger than the threshold
  int equal;  // and equal to it
  uint32_t value;
  int wanted;
};

/// Inclusive sum over the block, by thread.
__device__ int block_scan(int value, int* warp_sums) {
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

__device__ __forceinline__ void count_key(int* histogram, uint32_t bin) {
  // Many scores share a bin: one addition for those of a warp that do.
  const uint32_t active = __activemask();
  const uint32_t same = __match_any_sync(active, bin);
  if (static_cast<int>(threadIdx.x) % 32 == __ffs(static_cast<int>(same)) - 1)
    atomicAdd(&histogram[bin], __popc(same));
}

/// Finds the bin that holds the wanted-th largest of all blocks' keys; every block does the same.
__device__ void find_bin(Shared& s, cg::cluster_group& cluster, int digit, int wanted) {
  const int tid = static_cast<int>(threadIdx.x);
  // Thread i owns the bins 2047 - 2 i and 2046 - 2 i, so that an ascending scan goes down from the top.
  int counts[2] = {0, 0};
#pragma unroll
  for (unsigned rank = 0; rank < kBlocksMax; ++rank) {
    if (rank >= cluster.num_blocks()) continue;
    const int2 pair = *reinterpret_cast<const int2*>(cluster.map_shared_rank(s.histogram[digit], rank) +
                                                     kBins - 2 - 2 * tid);
    counts[0] += pair.y;
    counts[1] += pair.x;
  }
  const int upto = block_scan(counts[0] + counts[1], s.warp_sums);
  const int before = upto - counts[0] - counts[1];
  if (before < wanted && wanted <= upto) {
    const bool second = before + counts[0] < wanted;
    s.value = static_cast<uint32_t>(kBins - 1 - 2 * tid - (second ? 1 : 0));
    s.wanted = wanted - before - (second ? counts[0] : 0);
  }
  __syncthreads();
}

/// The scores that a block looks at, as keys.
struct Segment {
  const float* scores;
  int64_t begin, end;
  uint32_t* kept;  // null: they do not fit

  /// Keys of [i, i + kPerThread); zeros behind the end.
  __device__ uint4 keys(int64_t i) const {
    if (kept != nullptr) return *reinterpret_cast<const uint4*>(kept + (i - begin));
    return read(i);
  }
  __device__ uint4 read(int64_t i) const {
    if (i + kPerThread <= end) {
      const float4 v = *reinterpret_cast<const float4*>(scores + i);
      return {key_of(v.x), key_of(v.y), key_of(v.z), key_of(v.w)};
    }
    uint32_t keys[kPerThread] = {};
    for (int64_t k = i; k < end; ++k) keys[k - i] = key_of(scores[k]);
    return {keys[0], keys[1], keys[2], keys[3]};
  }
};

/// body(key) for the scores of this thread.
template <class Body>
__device__ void each_key(const Segment& segment, const Body& body) {
#pragma unroll 4
  for (int64_t i = segment.begin + static_cast<int64_t>(threadIdx.x) * kPerThread; i < segment.end;
       i += kThreads * kPerThread) {
    const uint4 keys = segment.keys(i);
    body(keys.x);
    if (i + 1 < segment.end) body(keys.y);
    if (i + 2 < segment.end) body(keys.z);
    if (i + 3 < segment.end) body(keys.w);
  }
}

/// Writes the segment's share of the list in order, from list[at] on: all keys above the threshold and the
/// first `ties` keys equal to it.
__device__ void write_list(const Segment& segment, uint32_t threshold, int ties, int at, int32_t* list,
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

__global__ void __launch_bounds__(kThreads) select_kernel(const float* scores, int64_t stride, RowMap rows,
                                                          int64_t first, int64_t topk, Selection out) {
  __shared__ Shared s;
  extern __shared__ __align__(16) uint32_t kept[];
  cg::cluster_group cluster = cg::this_cluster();
  const auto blocks = static_cast<int64_t>(cluster.num_blocks());
  const auto rank = static_cast<int64_t>(cluster.block_rank());
  const int64_t row = blockIdx.x / blocks;
  const int64_t n = rows.position[first + row] + 1;
  int32_t* list = out.lists.data + (first + row) * out.lists.cols;
  if (rank == 0 && threadIdx.x == 0) out.count[first + row] = static_cast<int32_t>(min(n, topk));
  if (n <= topk) {  // all blocks of the cluster leave
    for (int64_t i = rank * kThreads + threadIdx.x; i < n; i += blocks * kThreads) {
      list[i] = static_cast<int32_t>(i);
    }
    return;
  }
  const int64_t part = ((n + blocks - 1) / blocks + kPerThread - 1) / kPerThread * kPerThread;
  Segment segment{scores + row * stride, min(n, rank * part), min(n, (rank + 1) * part), nullptr};
  for (int i = static_cast<int>(threadIdx.x); i < kDigits * kBins; i += kThreads) {
    (&s.histogram[0][0])[i] = 0;
  }
  if (part <= kKept) {
    for (int64_t i = segment.begin + static_cast<int64_t>(threadIdx.x) * kPerThread; i < segment.end;
         i += kThreads * kPerThread) {
      *reinterpret_cast<uint4*>(kept + (i - segment.begin)) = segment.read(i);
    }
    segment.kept = kept;
  }
  __syncthreads();

  uint32_t prefix = 0;
  uint32_t mask = 0;
  int wanted = static_cast<int>(topk);
  int above = 0;  // of this thread's bins
  for (int digit = 0; digit < kDigits; ++digit) {
    const int shift = digit_shift(digit);
    each_key(segment, [&](uint32_t key) {
      if ((key & mask) == prefix) count_key(s.histogram[digit], key >> shift & digit_mask(digit));
    });
    cluster.sync();
    find_bin(s, cluster, digit, wanted);
    const uint32_t value = s.value;
    wanted = s.wanted;
    for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads) {
      if (static_cast<uint32_t>(bin) > value) above += s.histogram[digit][bin];
    }
    prefix |= value << shift;
    mask |= digit_mask(digit) << shift;
    __syncthreads();
  }
  block_scan(above, s.warp_sums);
  if (threadIdx.x == 0) {
    s.above = s.warp_sums[31];
    s.equal = s.histogram[kDigits - 1][prefix & digit_mask(kDigits - 1)];
  }
  cluster.sync();
  int above_before = 0;
  int equal_before = 0;
  for (unsigned other = 0; other < static_cast<unsigned>(rank); ++other) {
    above_before += *cluster.map_shared_rank(&s.above, other);
    equal_before += *cluster.map_shared_rank(&s.equal, other);
  }
  const int ties = max(0, min(wanted - equal_before, s.equal));
  write_list(segment, prefix, ties, above_before + min(equal_before, wanted), list, s);
  cluster.sync();  // nobody leaves while others read its counts
}

}  // namespace

void prepare_select() {
  check(cudaFuncSetAttribute(select_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(kKept * sizeof(uint32_t))),
        "raising a kernel's shared memory");
}

void select_largest(const float* scores, int64_t stride, const RowMap& rows, int64_t first, int64_t count,
                    int64_t topk, const Selection& out, cudaStream_t stream) {
  if (count == 0) return;
  // Blocks of a row: more for long rows, as long as they all run at once. The result does not depend on it.
  unsigned blocks = 1;
  if (rows.context_max > topk) {
    while (blocks < kBlocksMax && rows.context_max / blocks > 4096 && count * blocks < 128) blocks *= 2;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(count) * blocks);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kKept * sizeof(uint32_t);
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = blocks;
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, select_kernel, scores, stride, rows, first, topk, out),
        "launching select_largest");
}

}  // namespace glint::ops::cuda
