#include <algorithm>

#include "ops/cuda/check.h"
#include "ops/cuda/device_math.cuh"
#include "ops/cuda/overlap.cuh"
#include "ops/cuda/route.h"

namespace glint::ops::cuda {

namespace {

constexpr int kGroupThreads = 1024;

__device__ float sigmoid(float x) {
  return __fdiv_rn(1.0F, __fadd_rn(1.0F, expf(-x)));
}

/// The best (value, index) of a warp: the larger value, then the lower index.
__device__ void warp_best(float& value, int& index) {
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xFFFFFFFFU, value, step);
    const int other_index = __shfl_xor_sync(0xFFFFFFFFU, index, step);
    if (other > value || (other == value && other_index < index)) {
      value = other;
      index = other_index;
    }
  }
}

/// The index of the largest of n values in shared memory, lowest index first; every lane gets it. Values that
/// are -inf count, and ones marked taken do not.
__device__ int best_left(const float* values, const bool* taken, int n) {
  float best = -INFINITY;
  int index = n;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += 32) {
    if (taken[i]) continue;
    if (index == n || values[i] > best) {
      best = values[i];
      index = i;
    }
  }
  warp_best(best, index);
  return index;
}

/// Only the best groups stay eligible: a group's worth is the sum of its two best scores.
__device__ void keep_best_groups(float* choice, float* worth, bool* taken, int count,
                                 const RouteParams& params) {
  const int groups = static_cast<int>(params.n_group);
  const int size = count / groups;
  for (int g = static_cast<int>(threadIdx.x); g < groups; g += 32) {
    float first = -INFINITY;
    float second = -INFINITY;
    for (int i = 0; i < size; ++i) {
      const float value = choice[g * size + i];
      if (value > first) {
        second = first;
        first = value;
      } else if (value > second) {
        second = value;
      }
    }
    worth[g] = first + second;
    taken[g] = false;
  }
  __syncwarp();
  for (int64_t i = 0; i < params.topk_group; ++i) {
    const int g = best_left(worth, taken, groups);
    __syncwarp();
    if (threadIdx.x == 0) taken[g] = true;
    __syncwarp();
  }
  for (int e = static_cast<int>(threadIdx.x); e < count; e += 32) {
    if (!taken[e / size]) choice[e] = -INFINITY;
  }
  __syncwarp();
}

// One warp a row.
__global__ void choose_kernel(Floats logits, const float* bias, RouteParams params, Ints experts,
                              ChoiceCounts counted) {
  __shared__ float choice[kRouteExpertsMax];
  __shared__ float worth[kRouteExpertsMax];
  __shared__ bool taken[kRouteExpertsMax];
  const int64_t row = blockIdx.x;
  const int count = static_cast<int>(logits.cols);
  const float* in = logits.data + row * logits.stride;
  for (int e = static_cast<int>(threadIdx.x); e < count; e += 32) {
    const float score = sigmoid(in[e]) + bias[e];
    choice[e] = isnan(score) ? -INFINITY : score;
  }
  __syncwarp();
  if (params.n_group > 1) keep_best_groups(choice, worth, taken, count, params);
  for (int e = static_cast<int>(threadIdx.x); e < count; e += 32) taken[e] = false;
  __syncwarp();
  for (int64_t i = 0; i < params.num_experts_per_tok; ++i) {
    const int e = best_left(choice, taken, count);
    __syncwarp();
    if (threadIdx.x == 0) taken[e] = true;
    __syncwarp();
  }
  const bool counts = counted.counts != nullptr && row < *counted.rows;
  // Ascending.
  int before = 0;
  for (int first = 0; first < count; first += 32) {
    const int e = first + static_cast<int>(threadIdx.x);
    const bool mine = e < count && taken[e];
    const uint32_t all = __ballot_sync(0xFFFFFFFFU, mine);
    if (mine) {
      experts.data[row * experts.cols + before + __popc(all & ((1U << threadIdx.x) - 1U))] = e;
      if (counts) atomicAdd(counted.counts + e, 1U);
    }
    before += __popc(all);
  }
}

__global__ void halve_kernel(uint32_t* counts, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) counts[i] /= 2;
}

__global__ void weigh_kernel(Floats logits, const float* bias, RouteParams params, Ints experts,
                             Floats weights) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= experts.rows) return;
  const int32_t* chosen = experts.data + row * experts.cols;
  float values[kRouteChosenMax];
  float sum = 0;
  for (int j = 0; j < static_cast<int>(experts.cols); ++j) {
    values[j] = sigmoid(logits.data[row * logits.stride + chosen[j]]);
    if (params.weights_from_biased_scores) values[j] += bias[chosen[j]];
    sum += values[j];
  }
  const float divisor = params.norm_topk_prob ? sum + 1e-20F : 1.0F;
  for (int j = 0; j < static_cast<int>(experts.cols); ++j) {
    weights.data[row * weights.stride + j] =
        __fmul_rn(__fdiv_rn(values[j], divisor), params.routed_scaling_factor);
  }
}

/// Sums over this thread and those before it in the block, of two values at once.
__device__ int2 sums_to_here(int2 value) {
  __shared__ int2 of_warp[32];
  const auto add_before = [](int2& sum) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int step = 1; step < 32; step *= 2) {
      const int x = __shfl_up_sync(0xFFFFFFFFU, sum.x, step);
      const int y = __shfl_up_sync(0xFFFFFFFFU, sum.y, step);
      if (lane >= step) sum = {sum.x + x, sum.y + y};
    }
  };
  add_before(value);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x % 32 == 31) of_warp[warp] = value;
  __syncthreads();
  int2 before = of_warp[threadIdx.x % 32];
  add_before(before);
  const int x = __shfl_sync(0xFFFFFFFFU, before.x, max(warp - 1, 0));
  const int y = __shfl_sync(0xFFFFFFFFU, before.y, max(warp - 1, 0));
  return warp == 0 ? value : int2{value.x + x, value.y + y};
}

// One block: counts, offsets, tiles, places. Where a pair stands among those of its expert does not matter:
// no result depends on it.
__global__ void __launch_bounds__(kGroupThreads)
    group_kernel(Ints experts, int experts_count, PairGroups groups) {
  __shared__ int counts[kRouteExpertsMax];
  let_next_start();
  wait_for_earlier();
  const int tid = static_cast<int>(threadIdx.x);
  const int64_t pairs = experts.rows * experts.cols;
  counts[tid] = 0;
  __syncthreads();
  for (int64_t i = tid; i < pairs; i += kGroupThreads) atomicAdd(&counts[experts.data[i]], 1);
  __syncthreads();
  const int count = counts[tid];
  const int tile_rows = static_cast<int>(groups.tile_rows);
  const int tiles = (count + tile_rows - 1) / tile_rows;
  const int2 to_here = sums_to_here({count, tiles});
  if (tid == kGroupThreads - 1) *groups.used = to_here.y;
  const int first = to_here.x - count;
  const int first_tile = to_here.y - tiles;
  if (tid < experts_count) {
    for (int i = 0; i < tiles; ++i) {
      groups.expert[first_tile + i] = tid;
      groups.first[first_tile + i] = first + i * tile_rows;
      groups.count[first_tile + i] = min(tile_rows, count - i * tile_rows);
    }
  }
  __syncthreads();
  counts[tid] = first;
  __syncthreads();
  for (int64_t i = tid; i < pairs; i += kGroupThreads) {
    const int place = atomicAdd(&counts[experts.data[i]], 1);
    groups.row[place] = static_cast<int32_t>(i / experts.cols);
    groups.place[i] = place;
  }
}

__global__ void combine_kernel(const float* sums, int64_t stride, const int32_t* place, Floats weights,
                               Floats y) {
  let_next_start();
  wait_for_earlier();
  const int64_t row = blockIdx.x;
  const int64_t col = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (col >= y.cols) return;
  float sum = 0;
  for (int64_t j = 0; j < weights.cols; ++j) {
    const int64_t at = place[row * weights.cols + j];
    sum = __fmaf_rn(weights.data[row * weights.stride + j], sums[at * stride + col], sum);
  }
  y.data[row * y.stride + col] = sum;
}

}  // namespace

void choose_experts(Floats logits, const float* bias, const RouteParams& params, Ints experts,
                    const ChoiceCounts& counted, cudaStream_t stream) {
  GLINT_CHECK(logits.cols <= kRouteExpertsMax);
  choose_kernel<<<static_cast<unsigned>(logits.rows), 32, 0, stream>>>(logits, bias, params, experts,
                                                                       counted);
  check(cudaGetLastError(), "launching choose_experts");
}

void halve_counts(uint32_t* counts, int64_t count, cudaStream_t stream) {
  constexpr int kThreads = 256;
  halve_kernel<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(counts,
                                                                                                  count);
  check(cudaGetLastError(), "launching halve_counts");
}

void weigh_experts(Floats logits, const float* bias, const RouteParams& params, Ints experts, Floats weights,
                   cudaStream_t stream) {
  GLINT_CHECK(experts.cols <= kRouteChosenMax);
  constexpr int kThreads = 64;
  weigh_kernel<<<static_cast<unsigned>((experts.rows + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      logits, bias, params, experts, weights);
  check(cudaGetLastError(), "launching weigh_experts");
}

int64_t tiles_max(int64_t pairs, int64_t experts, int64_t tile_rows) {
  // Every expert with pairs has at most one tile that is not full.
  return std::min(pairs, experts + pairs / tile_rows);
}

void group_pairs(Ints experts, int64_t experts_count, const PairGroups& groups, cudaStream_t stream) {
  GLINT_CHECK(experts_count <= kRouteExpertsMax);
  launch_early(group_kernel, 1, kGroupThreads, 0, stream, "launching group_pairs", experts,
               static_cast<int>(experts_count), groups);
}

void combine_pairs(const float* sums, int64_t stride, const int32_t* place, Floats weights, Floats y,
                   cudaStream_t stream) {
  constexpr int kThreads = 256;
  const dim3 grid(static_cast<unsigned>(y.rows), static_cast<unsigned>((y.cols + kThreads - 1) / kThreads));
  launch_early(combine_kernel, grid, kThreads, 0, stream, "launching combine_pairs", sums, stride, place,
               weights, y);
}

}  // namespace glint::ops::cuda
