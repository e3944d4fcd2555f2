// Exact selection of the largest scores of a row by a cluster of blocks.
//
// A lower bound first: each thread's largest four scores, of as many quarters of what it reads, go into a
// histogram, and where the topk-th largest of those lies is below topk scores. What reaches the bound,
// usually little more than topk, is gathered in the order of the positions, and one block finishes with that
// alone. Scores are read once (rows that fit into registers) or three times, and hardly counted. Where too
// many reach the bound (ties, ascending scores), all blocks count all scores digit by digit instead.
#include <algorithm>

#include "ops/cuda/check.h"
#include "ops/cuda/select.h"
#include "ops/cuda/select_digits.cuh"
#include "ops/cuda/select_finish.cuh"

namespace glint::ops::cuda {

namespace {

constexpr int kChunk = kThreads * 4;  // scores that a block reads at once
constexpr int kWarpChunk = 32 * 4;
constexpr int kHeld = kPieces * kChunk;  // scores that a block keeps in registers

/// What a block looks at: all of it in `held` (four chunks), or so much that it is read again.
template <bool kRegisters>
struct Part {
  Segment segment;
  int64_t warp_run;  // scores that a warp gathers from, if they are not held
  uint4 held[kRegisters ? kPieces : 1];

  static constexpr int kOwnPieces = kRegisters ? kPieces : 1;

  /// body(keys) for every key of this thread, in any order; zeros for what is none.
  template <class Body>
  __device__ void each(const Body& body) const {
    if constexpr (kRegisters) {
#pragma unroll
      for (int p = 0; p < kPieces; ++p) body(held[p]);
    } else {
#pragma unroll 8
      for (int64_t i = segment.begin + static_cast<int64_t>(threadIdx.x) * 4; i < segment.end; i += kChunk) {
        body(segment.keys(i));
      }
    }
  }
  /// body(keys, position) for those of a piece. The pieces of the warps are in ascending order of positions:
  /// the first of all warps, then the second.
  template <class Body>
  __device__ void each_of_piece(int piece, const Body& body) const {
    if constexpr (kRegisters) {
      body(held[piece], segment.begin + piece * kChunk + static_cast<int>(threadIdx.x) * 4);
    } else {
      const int64_t first = segment.begin + threadIdx.x / 32 * warp_run;
      const int64_t end = min(segment.end, first + warp_run);
#pragma unroll 4
      for (int64_t i = first; i < end; i += kWarpChunk) {
        const int64_t at = i + threadIdx.x % 32 * 4;
        body(segment.keys(at), at);
      }
    }
  }
};

__device__ __forceinline__ uint4 larger(const uint4& a, const uint4& b) {
  return {max(a.x, b.x), max(a.y, b.y), max(a.z, b.z), max(a.w, b.w)};
}

/// A key that topk keys of the row reach (0: maybe not more). Starts with the histograms zero in all blocks,
/// as soon as they have met once.
template <bool kRegisters>
__device__ uint32_t lower_bound(const Part<kRegisters>& part, unsigned ranks, int topk, Shared& s) {
  uint4 largest{};
  part.each([&](const uint4& keys) { largest = larger(largest, keys); });
  count_key(s.bins, largest.x >> kBoundShift);
  count_key(s.bins, largest.y >> kBoundShift);
  count_key(s.bins, largest.z >> kBoundShift);
  count_key(s.bins, largest.w >> kBoundShift);
  __syncthreads();
  int* bins = s.bins;
  if (ranks > 1) {
    // Few bins hold anything: those go to all blocks.
    cg::cluster_group cluster = cg::this_cluster();
    cluster.barrier_wait();
    bins = s.all_bins;
    for (int bin = static_cast<int>(threadIdx.x); bin < kBoundBins; bin += kThreads) {
      const int count = s.bins[bin];
      if (count == 0) continue;
      for (unsigned rank = 0; rank < ranks; ++rank)
        atomicAdd(cluster.map_shared_rank(bins, rank) + bin, count);
    }
    cluster.sync();
  }
  if (static_cast<int>(ranks) * kThreads * 4 < topk) return 0;
  return find_bin<kBoundBins>(bins, 1, topk, s.warp_sums, &s.found).bin << kBoundShift;
}

/// Gathers this block's candidates, in order. Returns how many; those behind kCandidates are not kept.
template <bool kRegisters>
__device__ int gather(const Part<kRegisters>& part, uint32_t bound, uint2* candidates, Shared& s) {
  constexpr int kOwn = Part<kRegisters>::kOwnPieces;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int64_t end = part.segment.end;
  const auto mask_of = [&](const uint4& k, int64_t at) {
    return static_cast<int>(k.x >= bound && at < end) | static_cast<int>(k.y >= bound && at + 1 < end) << 1 |
           static_cast<int>(k.z >= bound && at + 2 < end) << 2 |
           static_cast<int>(k.w >= bound && at + 3 < end) << 3;
  };
#pragma unroll
  for (int p = 0; p < kOwn; ++p) {
    unsigned mine = 0;
    part.each_of_piece(p, [&](const uint4& keys, int64_t at) { mine += __popc(mask_of(keys, at)); });
    mine = __reduce_add_sync(0xFFFFFFFFU, mine);
    if (lane == 0) s.counts[p * kWarps + warp] = static_cast<int>(mine);
  }
  __syncthreads();
  // Every warp adds up what the pieces before its own have.
  int of_lane[kOwn];
  unsigned all = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) all += of_lane[i] = s.counts[lane * kOwn + i];
  all = __reduce_add_sync(0xFFFFFFFFU, all);
#pragma unroll
  for (int p = 0; p < kOwn; ++p) {
    unsigned before = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) before += lane * kOwn + i < p * kWarps + warp ? of_lane[i] : 0;
    int at = static_cast<int>(__reduce_add_sync(0xFFFFFFFFU, before));
    part.each_of_piece(p, [&](const uint4& keys, int64_t position) {
      const int mask = mask_of(keys, position);
      if (__ballot_sync(0xFFFFFFFFU, mask != 0) == 0) return;
      int place = at;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const uint32_t set = __ballot_sync(0xFFFFFFFFU, (mask >> k & 1) != 0);
        place += __popc(set & ((1U << lane) - 1));
        at += __popc(set);
      }
      const uint32_t four[4] = {keys.x, keys.y, keys.z, keys.w};
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if ((mask >> k & 1) == 0) continue;
        if (place < kCandidates) candidates[place] = {four[k], static_cast<uint32_t>(position + k)};
        ++place;
      }
    });
  }
  return static_cast<int>(all);
}

/// s.before from the counts of all blocks.
__device__ void add_up_candidates(unsigned ranks, Shared& s) {
  const auto lane = threadIdx.x;
  if (lane < 32) {
    int upto = lane < ranks ? *cg::this_cluster().map_shared_rank(&s.candidates, lane) : 0;
    for (unsigned step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(0xFFFFFFFFU, upto, step);
      if (lane >= step) upto += other;
    }
    if (lane < ranks) s.before[lane + 1] = upto;
    if (lane == 0) s.before[0] = 0;
  }
  __syncthreads();
}

template <bool kRegisters>
__global__ void __launch_bounds__(kThreads)
    select_kernel(const float* scores, int64_t stride, RowMap rows, int64_t first, int topk, Selection out) {
  extern __shared__ __align__(16) std::byte shared[];
  Shared& s = *reinterpret_cast<Shared*>(shared);
  auto* candidates = reinterpret_cast<uint2*>(shared + sizeof(Shared));
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned ranks = cluster.num_blocks();
  const unsigned rank = cluster.block_rank();
  const int64_t row = blockIdx.x / ranks;
  const int64_t n = rows.position[first + row] + 1;
  int32_t* list = out.lists.data + (first + row) * out.lists.cols;
  const int tid = static_cast<int>(threadIdx.x);
  if (rank == 0 && tid == 0) out.count[first + row] = static_cast<int32_t>(min(n, int64_t{topk}));
  if (n <= topk) {  // all blocks of the cluster leave
    for (int64_t i = rank * kThreads + tid; i < n; i += ranks * kThreads) list[i] = static_cast<int32_t>(i);
    return;
  }
  const int64_t run = (n + ranks * kChunk - 1) / (ranks * kChunk) * kChunk;
  Part<kRegisters> part{.segment = {scores + row * stride, min(n, rank * run), min(n, (rank + 1) * run)},
                        .warp_run = run / kWarps};
  if constexpr (kRegisters) {
#pragma unroll
    for (int p = 0; p < kPieces; ++p)
      part.held[p] = part.segment.keys(part.segment.begin + p * kChunk + tid * 4);
  }
  for (int i = tid; i < kBoundBins; i += kThreads) s.bins[i] = s.all_bins[i] = 0;
  for (int i = tid; i < kDigits * kBins; i += kThreads) (&s.digits[0][0])[i] = 0;
  __syncthreads();
  if (ranks > 1) cluster.barrier_arrive();
  const uint32_t bound = lower_bound(part, ranks, topk, s);
  for (int i = tid; i < kFineBins; i += kThreads) s.bins[i] = 0;
  if (tid == 0) s.few = 0;
  const int mine = gather(part, bound, candidates, s);
  if (tid == 0) s.candidates = mine;
  sync_all(ranks);
  add_up_candidates(ranks, s);
  if (s.before[ranks] > kCandidates) {
    select_by_digits(part.segment, rank, ranks, topk, list, s);
    sync_all(ranks);  // nobody leaves while others read its memory
    return;
  }
  Own own;
  if (rank == 0) load_own(candidates, ranks, s, own);
  sync_all(ranks);
  if (rank > 0) return;
  if (!find_by_comparing(own, bound, topk, s)) find_by_digits(own, topk, s);
  __syncthreads();
  write_own(own, list, s);
}

// Clusters of more than 8 blocks are not to be had everywhere.
unsigned blocks_max = 8;

constexpr auto kSharedBytes = static_cast<int>(sizeof(Shared) + kCandidates * sizeof(uint2));

/// `count` clusters of `blocks` blocks; the config refers to `attribute`.
cudaLaunchConfig_t launch_config(unsigned blocks, unsigned count, cudaLaunchAttribute& attribute,
                                 cudaStream_t stream) {
  attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = blocks;
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(count * blocks);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kSharedBytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return config;
}

}  // namespace

void prepare_select() {
  for (const void* kernel : {reinterpret_cast<const void*>(select_kernel<true>),
                             reinterpret_cast<const void*>(select_kernel<false>)}) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
          "raising a kernel's shared memory");
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
          "allowing clusters");
  }
  cudaLaunchAttribute attribute;
  cudaLaunchConfig_t config = launch_config(kBlocksMax, 4, attribute, nullptr);
  int clusters = 0;
  const bool large = cudaOccupancyMaxActiveClusters(&clusters, select_kernel<false>, &config) == cudaSuccess;
  cudaGetLastError();
  blocks_max = large && clusters >= 4 ? kBlocksMax : 8;
}

void select_largest(const float* scores, int64_t stride, const RowMap& rows, int64_t first, int64_t count,
                    int64_t topk, const Selection& out, cudaStream_t stream) {
  if (count == 0) return;
  // Blocks of a row: more for long rows, as long as they all run at once. The result does not depend on it.
  unsigned blocks = 1;
  if (rows.context_max > topk) {
    while (blocks < blocks_max && rows.context_max > blocks * kHeld &&
           count * blocks < (blocks < 8 ? 128 : 64))
      blocks *= 2;
  }
  cudaLaunchAttribute attribute;
  const cudaLaunchConfig_t config = launch_config(blocks, static_cast<unsigned>(count), attribute, stream);
  const bool held = rows.context_max <= static_cast<int64_t>(blocks) * kHeld;
  check(cudaLaunchKernelEx(&config, held ? select_kernel<true> : select_kernel<false>, scores, stride, rows,
                           first, static_cast<int>(topk), out),
        "launching select_largest");
}

}  // namespace glint::ops::cuda
