// The Hopper kernel of many rows (matmul_hopper.cu).
//
// The first warpgroup (two where W is widened) fills a ring of stages in shared memory with tiles of 128
// bytes a row, in wgmma's 128-byte swizzle: by the bulk copy engine, and where rows of x are gathered by its
// threads. The last two multiply 64 rows of x each by all rows of the tile of W, 128 at a time. FP8 sums are
// promoted every step: the two take turns, so that one promotes while the other's products run. A block takes
// tile after tile, so that the ring is filled for the next while the last is written. Two blocks that form a
// cluster take neighbouring tiles of x and read half a tile of W each, for both.
#pragma once

#include "ops/cuda/hopper_fill.cuh"
#include "ops/cuda/hopper_write.cuh"

namespace glint::ops::cuda::hopper {

constexpr uint32_t kPartPlaces = kPart * kStepBytes / 16;  // of a matrix, from one part of W to the next

/// The operands of a warpgroup in the first stage.
template <class S>
struct Operands {
  uint32_t x, w;
  __device__ Operands(const Ring<S>& ring, int warpgroup)
      : x(matrix_at(ring.stages + warpgroup * 64 * kStepBytes)), w(matrix_at(ring.stages + S::kBytesX)) {}
  __device__ __forceinline__ static uint32_t places(const Place<S::kStages>& at) {
    return at.stage * (S::kStageBytes / 16);
  }
};

/// Starts the products of one step: four instructions of 32 bytes a row. `between(k)` comes after each.
template <class Form, class Sums, class Between>
__device__ __forceinline__ void start_step(Sums& sums, uint32_t x, uint32_t w, bool add,
                                           const Between& between) {
  begin_multiply();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    Form::step(sums, x + 2 * k, w + 2 * k, add || k > 0);
    between(k);
  }
  end_multiply();
}

/// total += sum times the scale of x's row and of W's block, of a thread's two rows.
__device__ __forceinline__ void promote(float (&totals)[64], const float (&sums)[64], float near, float far) {
#pragma unroll
  for (int i = 0; i < 64; i += 4) {
    totals[i] = __fmaf_rn(sums[i], near, totals[i]);
    totals[i + 1] = __fmaf_rn(sums[i + 1], near, totals[i + 1]);
    totals[i + 2] = __fmaf_rn(sums[i + 2], far, totals[i + 2]);
    totals[i + 3] = __fmaf_rn(sums[i + 3], far, totals[i + 3]);
  }
}

template <class S>
__device__ __forceinline__ void sum_promoting(float (&totals)[S::kParts][64], const Ring<S>& ring,
                                              Place<S::kStages>& at, int steps, int row_near, int warpgroup) {
#pragma unroll
  for (int part = 0; part < S::kParts; ++part) {
#pragma unroll
    for (float& total : totals[part]) total = 0;
  }
  const Operands<S> operands(ring, warpgroup);
  float sums[64];
  ring.wait_full(at);
  for (int step = 0; step < steps; ++step) {
    const Place<S::kStages> now = at;
    float near = 0;
    float far = 0;
    float of_w[S::kParts];
#pragma unroll
    for (int part = 0; part < S::kParts; ++part) {
      take_turn(warpgroup);
      start_step<typename S::Form>(sums, operands.x + operands.places(now),
                                   operands.w + operands.places(now) + part * kPartPlaces, false, [&](int k) {
                                     if (k == S::kPassAfter) pass_turn(warpgroup);
                                   });
      // What the next products need is fetched while these run: nothing may come between two turns.
      if (part == 0) {
        near = load_shared(ring.scales(now) + row_near * 4);
        far = load_shared(ring.scales(now) + (row_near + 8) * 4);
#pragma unroll
        for (int i = 0; i < S::kParts; ++i) of_w[i] = load_shared(ring.scales(now) + (kTileX + i) * 4);
      }
      if (part == S::kParts - 1) {
        at.advance();
        if (step + 1 < steps) ring.wait_full(at);
      }
      wait_for_multiply<0>();
      pin(sums);
      if (part == S::kParts - 1) ring.release(now);
      promote(totals[part], sums, __fmul_rn(near, of_w[part]), __fmul_rn(far, of_w[part]));
    }
  }
}

template <class S>
__device__ __forceinline__ void sum_in_place(float (&totals)[S::kParts][64], const Ring<S>& ring,
                                             Place<S::kStages>& at, int steps, int warpgroup) {
  const Operands<S> operands(ring, warpgroup);
  const auto nothing = [](int) {};
  Place<S::kStages> before = at;
  for (int step = 0; step < steps; ++step, at.advance()) {
    ring.wait_full(at);
    const uint32_t x = operands.x + operands.places(at);
    const uint32_t w = operands.w + operands.places(at);
    if constexpr (S::kWhole) {
      start_step<typename S::Form>(totals, x, w, step > 0, nothing);
    } else {
#pragma unroll
      for (int part = 0; part < S::kParts; ++part)
        start_step<typename S::Form>(totals[part], x, w + part * kPartPlaces, step > 0, nothing);
    }
    if (step > 0) {
      wait_for_multiply<S::kWhole ? 1 : S::kParts>();
      ring.release(before);
      before.advance();
    }
  }
  wait_for_multiply<0>();
  ring.release(before);
#pragma unroll
  for (int part = 0; part < S::kParts; ++part) pin(totals[part]);
}

/// The second and third warpgroups.
template <class S>
__device__ __forceinline__ void multiply_tiles(const Matmul& p, const Ring<S>& ring, Schedule<S>& schedule,
                                               int64_t out_cols) {
  // The same for a warp: said so that it stays in a uniform register.
  const int warpgroup = __shfl_sync(0xFFFFFFFFU, (static_cast<int>(threadIdx.x) - S::kFillThreads) / 128, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row_near = warpgroup * 64 + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
  const int steps = steps_of<S>(p);
  Place<S::kStages> at;
  Tile tile;
  if (!schedule.next(tile)) return;
  if (S::Form::kPromotes && warpgroup == 1) pass_turn(warpgroup);  // the other begins
  for (bool more = true; more;) {
    float totals[S::kParts][64];
    if constexpr (S::Form::kPromotes) {
      sum_promoting<S>(totals, ring, at, steps, row_near, warpgroup);
    } else {
      sum_in_place<S>(totals, ring, at, steps, warpgroup);
    }
    const Tile done = tile;
    more = schedule.next(tile);
    if constexpr (S::kWidens) {
      const Weight& w = weight_of(p, done);
#pragma unroll
      for (int part = 0; part < S::kParts; ++part) {
#pragma unroll
        for (float& total : totals[part]) total = finished<Fp4Form>(w, total);
      }
    }
#pragma unroll
    for (int part = 0; part < S::kParts; ++part)
      write_part<S>(p, done, totals[part], row_near, done.col0 + part * kPart, out_cols);
  }
  if (S::Form::kPromotes && warpgroup == 0) take_turn(warpgroup);  // the last that the other passed
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1)
    hopper_kernel(const __grid_constant__ Matmul p, const __grid_constant__ CUtensorMap x_map,
                  const __grid_constant__ CUtensorMap w_map) {
  extern __shared__ __align__(1024) std::byte raw[];
  const Ring<S> ring(raw);
  if (threadIdx.x == 0) ring.initialise();
  if constexpr (S::kCluster > 1) {
    sync_cluster();
  } else {
    __syncthreads();
  }
  const int64_t out_cols = p.out_cols == 0 ? p.weight.rows : p.out_cols;
  Schedule<S> schedule(p, out_cols);
  if (threadIdx.x < S::kFillThreads) {
    give_registers<S::kFillRegisters>();
    if constexpr (S::kGathers || S::kWidens) {
      fill_by_threads<S>(p, x_map, w_map, ring, schedule, out_cols);
    } else {
      fill_by_engine<S>(p, x_map, w_map, ring, schedule, out_cols);
    }
  } else {
    take_registers<S::kMultiplyRegisters>();
    multiply_tiles<S>(p, ring, schedule, out_cols);
  }
  // Nothing may arrive at a block that has ended.
  if constexpr (S::kCluster > 1) sync_cluster();
}

}  // namespace glint::ops::cuda::hopper
