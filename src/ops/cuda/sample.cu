// Four kernels: the largest logit of each piece of a row; what top_k and top_p need to know of each piece;
// the cut that they make, one block a row; the race. Most blocks of the second and third find nothing to do.
#include <algorithm>
#include <atomic>

#include "ops/cuda/check.h"
#include "ops/cuda/sample_core.cuh"
#include "ops/cuda/sample_cut.cuh"

namespace glint::ops::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kStaticBytes = 1024;  // more than the cut's kernel has beside CutShared
std::atomic<int> cut_shared_bytes{48 * 1024 - kStaticBytes};

int list_max() {
  return (cut_shared_bytes - static_cast<int>(sizeof(CutShared))) / static_cast<int>(sizeof(Candidate));
}

struct Arrival {
  double time;
  int id;
};

struct Scratch {
  Peak* peaks;        // [rows][pieces]
  Tally* tallies;     // [rows][pieces]
  Arrival* arrivals;  // [rows][pieces]
  RowCut* cuts;       // [rows]
  unsigned* arrived;  // [rows] pieces whose arrival has been written
};

int64_t piece_count(int64_t vocab_size) {
  return (vocab_size + kPieceIds - 1) / kPieceIds;
}

template <class T>
T* part_of(std::byte*& at, int64_t count) {
  auto* const part = reinterpret_cast<T*>(at);
  at += (count * static_cast<int64_t>(sizeof(T)) + 255) / 256 * 256;
  return part;
}

/// Laid out for the most rows, so that what is left as zeros stays in its place.
Scratch scratch_at(std::byte*& at, int64_t rows_max, int64_t vocab_size) {
  const int64_t pieces = rows_max * piece_count(vocab_size);
  Scratch scratch{};
  scratch.peaks = part_of<Peak>(at, pieces);
  scratch.tallies = part_of<Tally>(at, pieces);
  scratch.arrivals = part_of<Arrival>(at, pieces);
  scratch.cuts = part_of<RowCut>(at, rows_max);
  scratch.arrived = part_of<unsigned>(at, rows_max);
  return scratch;
}

__device__ __forceinline__ Peak higher(Peak a, Peak b) {
  const bool first = a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  return {first ? a.logit : b.logit, first ? a.id : b.id, a.bad | b.bad};
}

__device__ __forceinline__ Peak highest_of_warp(Peak peak) {
  for (int step = 16; step > 0; step /= 2) {
    peak = higher(peak, {__shfl_xor_sync(~0U, peak.logit, step), __shfl_xor_sync(~0U, peak.id, step),
                         __shfl_xor_sync(~0U, peak.bad, step)});
  }
  return peak;
}

__global__ void __launch_bounds__(kThreads) peak_kernel(SampleRows rows, Scratch scratch) {
  __shared__ Peak peaks[kThreads / 32];
  const SampledRow row(rows, blockIdx.y);
  const int begin = static_cast<int>(blockIdx.x) * kPieceIds;
  const int end = min(begin + kPieceIds, row.size);
  Peak peak{kNever, INT_MAX, 0};
  for (int id = begin + static_cast<int>(threadIdx.x); id < end; id += kThreads) {
    const float logit = row.logit(id);
    peak.bad |= isnan(logit) ? 1 : 0;
    if (logit > peak.logit) peak = {logit, id, peak.bad};
  }
  peak = highest_of_warp(peak);
  if (threadIdx.x % 32 == 0) peaks[threadIdx.x / 32] = peak;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  peak = highest_of_warp(threadIdx.x < kThreads / 32 ? peaks[threadIdx.x] : Peak{kNever, INT_MAX, 0});
  if (threadIdx.x == 0) scratch.peaks[blockIdx.y * gridDim.x + blockIdx.x] = peak;
}

/// The row's highest logit, by every block for itself. All threads call it.
__device__ Peak highest_of_row(const Scratch& scratch, int64_t row, int pieces) {
  __shared__ Peak whole;
  if (threadIdx.x < 32) {
    Peak peak{kNever, INT_MAX, 0};
    for (int piece = static_cast<int>(threadIdx.x); piece < pieces; piece += 32)
      peak = higher(peak, scratch.peaks[row * pieces + piece]);
    peak = highest_of_warp(peak);
    if (threadIdx.x == 0) whole = peak;
  }
  __syncthreads();
  return whole;
}

__device__ __forceinline__ bool usable(const Peak& peak) {
  return peak.bad == 0 && peak.logit != kNever && peak.logit < INFINITY;
}

__global__ void __launch_bounds__(kThreads) tally_kernel(SampleRows rows, Scratch scratch) {
  __shared__ Tally sums[kThreads / 32];
  const SampledRow row(rows, blockIdx.y);
  if (!row.cuts()) return;
  const Peak peak = highest_of_row(scratch, blockIdx.y, static_cast<int>(gridDim.x));
  if (!usable(peak)) return;
  const int begin = static_cast<int>(blockIdx.x) * kPieceIds;
  const int end = min(begin + kPieceIds, row.size);
  Tally tally{};
  for (int id = begin + static_cast<int>(threadIdx.x); id < end; id += kThreads)
    tally.add(row.weight(id, peak.logit));
  tally.sum_over_warp();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = tally;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kThreads / 32; ++warp) tally.add(sums[warp]);
  scratch.tallies[blockIdx.y * gridDim.x + blockIdx.x] = tally;
}

__global__ void __launch_bounds__(kCutThreads)
    cut_kernel(SampleRows rows, Scratch scratch, int pieces, int list_max) {
  const int64_t index = blockIdx.x;
  const SampledRow row(rows, index);
  const Peak peak = highest_of_row(scratch, index, pieces);
  RowCut cut{.largest = peak.logit, .first = peak.id, .done = true, .least_weight = 0, .least_id = -1};
  int32_t token = peak.id;
  if (!usable(peak)) {
    token = -1;
  } else if (!row.greedy()) {
    cut.done = row.cuts() && !find_cut(row, scratch.tallies + index * pieces, pieces, list_max, cut);
  }
  if (threadIdx.x != 0) return;
  scratch.cuts[index] = cut;
  if (cut.done) rows.tokens[index] = token;
}

__device__ __forceinline__ Arrival earlier(Arrival a, Arrival b) {
  return b.time < a.time || (b.time == a.time && b.id < a.id) ? b : a;
}

__device__ Arrival earliest_of_block(Arrival arrival, Arrival* warps) {
  const auto over_warp = [](Arrival a) {
    for (int step = 16; step > 0; step /= 2) {
      a = earlier(a, {__shfl_xor_sync(~0U, a.time, step), __shfl_xor_sync(~0U, a.id, step)});
    }
    return a;
  };
  arrival = over_warp(arrival);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = arrival;
  __syncthreads();
  if (threadIdx.x < 32)
    arrival = over_warp(threadIdx.x < kThreads / 32 ? warps[threadIdx.x] : Arrival{INFINITY, INT_MAX});
  return arrival;
}

__global__ void __launch_bounds__(kThreads) race_kernel(SampleRows rows, Scratch scratch) {
  __shared__ Arrival warps[kThreads / 32];
  __shared__ bool last;
  const int64_t index = blockIdx.y;
  const RowCut cut = scratch.cuts[index];
  if (cut.done) return;
  const SampledRow row(rows, index);
  const Arrival first{
      race_time(row.key, cut.first, upper_hash(static_cast<uint32_t>(cut.first), row.key), 1.0F), cut.first};
  // An arrival -log(1 - u) / w is later than u / w: most ids lose by this bound, without a logarithm.
  const auto bound = static_cast<float>(first.time * (1 + 1e-6));
  const int begin = static_cast<int>(blockIdx.x) * kPieceIds;
  const int end = min(begin + kPieceIds, row.size);
  Arrival best{INFINITY, INT_MAX};
  for (int id = begin + static_cast<int>(threadIdx.x); id < end; id += kThreads) {
    const uint32_t upper = upper_hash(static_cast<uint32_t>(id), row.key);
    const float u = static_cast<float>(upper >> 8) * 0x1p-24F;
    const float weight = row.weight(id, cut.largest);
    if (!(u < weight * bound) || !cut.holds(id, weight)) continue;
    best = earlier(best, {race_time(row.key, id, upper, weight), id});
  }
  best = earliest_of_block(best, warps);
  if (threadIdx.x == 0) {
    scratch.arrivals[index * gridDim.x + blockIdx.x] = best;
    __threadfence();
    last = atomicAdd(&scratch.arrived[index], 1U) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  best = {INFINITY, INT_MAX};
  __threadfence();
  for (unsigned piece = threadIdx.x; piece < gridDim.x; piece += kThreads)
    best = earlier(best, scratch.arrivals[index * gridDim.x + piece]);
  best = earliest_of_block(best, warps);
  if (threadIdx.x != 0) return;
  rows.tokens[index] = best.time < first.time ? best.id : first.id;
  scratch.arrived[index] = 0;
}

}  // namespace

void prepare_sampling() {
  int device = 0;
  int most = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "asking for the shared memory");
  cut_shared_bytes = most - kStaticBytes;
  check(cudaFuncSetAttribute(cut_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, cut_shared_bytes),
        "raising a kernel's shared memory");
}

int64_t sample_scratch_bytes(int64_t rows_max, int64_t vocab_size) {
  std::byte* end = nullptr;
  scratch_at(end, rows_max, vocab_size);
  return reinterpret_cast<intptr_t>(end);
}

void sample(const SampleRows& rows, const SampleScratch& given, cudaStream_t stream) {
  GLINT_CHECK(rows.logits.rows <= given.rows_max);
  if (rows.logits.rows == 0) return;
  auto* at = static_cast<std::byte*>(given.memory);
  const Scratch scratch = scratch_at(at, given.rows_max, rows.logits.cols);
  const auto count = static_cast<unsigned>(rows.logits.rows);
  const auto pieces = static_cast<unsigned>(piece_count(rows.logits.cols));
  const dim3 grid(pieces, count);
  peak_kernel<<<grid, kThreads, 0, stream>>>(rows, scratch);
  tally_kernel<<<grid, kThreads, 0, stream>>>(rows, scratch);
  cut_kernel<<<count, kCutThreads, static_cast<size_t>(cut_shared_bytes), stream>>>(
      rows, scratch, static_cast<int>(pieces), list_max());
  race_kernel<<<grid, kThreads, 0, stream>>>(rows, scratch);
  check(cudaGetLastError(), "launching sample");
}

}  // namespace glint::ops::cuda
