// The kernel of products with few rows of x: every weight byte is read once. The warps of a block take turns
// with the items of the same 16, 32 or 64 weight rows (weight_stream.cuh). The sums of the blocks of 128
// columns meet in shared memory and are added in ascending order by one thread each (matmul.h: so the order
// is that of the other kernels).
//
// Weights do not depend on the kernel before, so the first items are on their way before it ends.
#pragma once

#include "ops/cuda/overlap.cuh"
#include "ops/cuda/skinny_inputs.cuh"

namespace glint::ops::cuda {

constexpr int kWarpsMin = 4;

/// How a product is spread, chosen at the launch.
struct Spread {
  int sum_rows = 0;  // rows of x of a tile
  int turns = 0;     // items of each warp between two barriers
};

/// The sums of a block of columns: a place for each row of x and row of W, and behind the rows of W the scale
/// of all of them.
template <int kRows>
constexpr int kSumStride = kRows * 16 + 4;

template <class Form, int kRows, int kCols>
__device__ __forceinline__ void store_sums(const float (&sums)[kRows][kCols][4], float scale, int count,
                                           float* target, unsigned lane) {
  constexpr int kStride = kSumStride<kRows>;
  const int first = static_cast<int>(lane % 4) * 2;
  float* const mine = target + first * kStride + lane / 4;
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (j * 8 + e >= count - first) continue;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        mine[(j * 8 + e) * kStride + i * 16] = sums[i][j][e];
        mine[(j * 8 + e) * kStride + i * 16 + 8] = sums[i][j][2 + e];
      }
    }
  }
  if constexpr (Form::kFormat == WeightFormat::fp8_block) {
    if (static_cast<int>(lane) < count) target[lane * kStride + kRows * 16] = scale;
  }
}

/// The outputs that a thread owns: pairs of neighbouring columns of y.
template <int kRows, int kCols>
class OwnedOutputs {
  static constexpr int kPairs = kRows * 8;  // of a row of x
  static constexpr int kOwned = (kPairs * kCols * 8 + kWarpsMin * 32 - 1) / (kWarpsMin * 32);

 public:
  /// Adds the sums of `blocks` blocks.
  template <class Form>
  __device__ __forceinline__ void add(const float* sums, int blocks, int sum_rows, int count) {
    constexpr int kStride = kSumStride<kRows>;
    const int step = sum_rows * kStride;
#pragma unroll
    for (int o = 0; o < kOwned; ++o) {
      const unsigned pair = o * blockDim.x + threadIdx.x;
      if (pair / kPairs >= static_cast<unsigned>(count)) break;
      const float* const row = sums + pair / kPairs * kStride;
      const float* value = row + pair % kPairs * 2;
      const float* scale = row + kRows * 16;
      float2 total = totals_[o];
#pragma unroll 8
      for (int b = 0; b < blocks; ++b, value += step, scale += step) {
        const float2 sum = *reinterpret_cast<const float2*>(value);
        if constexpr (Form::kFormat == WeightFormat::fp8_block) {
          total.x = __fmaf_rn(sum.x, *scale, total.x);
          total.y = __fmaf_rn(sum.y, *scale, total.y);
        } else {
          total.x = __fadd_rn(total.x, sum.x);
          total.y = __fadd_rn(total.y, sum.y);
        }
      }
      totals_[o] = total;
    }
  }

  /// Calls store(row, column, total) for each.
  template <class Store>
  __device__ __forceinline__ void each(int count, const Store& store) const {
#pragma unroll
    for (int o = 0; o < kOwned; ++o) {
      const unsigned pair = o * blockDim.x + threadIdx.x;
      const auto row = static_cast<int>(pair / kPairs);
      const auto col = static_cast<int>(pair % kPairs) * 2;
      if (row >= count) break;
      store(row, col, totals_[o].x);
      store(row, col + 1, totals_[o].y);
    }
  }

 private:
  float2 totals_[kOwned] = {};
};

template <class Form, int kCols, int kSpan>
using Inputs = std::conditional_t<Form::kFormat == WeightFormat::fp8_block, Fp8Inputs<kCols, kSpan>,
                                  DirectInputs<Form, kCols>>;

/// The sums of one block of columns.
template <class Form, int kRows, int kCols, int kSpan>
__device__ __forceinline__ void multiply_block(const WeightReader<Form, kRows, kSpan>& weights,
                                               const std::byte* slot, int block_of_item,
                                               const Inputs<Form, kCols, kSpan>& inputs,
                                               const typename DirectInputs<Form, kCols>::Block& x,
                                               float (&sums)[kRows][kCols][4]) {
#pragma unroll
  for (int c = 0; c < Form::kChunks; ++c) {
    uint4 codes[kRows][2];
    uint32_t scales[kRows][2][2];
    weights.read(slot, block_of_item * Form::kChunks + c, codes, scales);
    if constexpr (Inputs<Form, kCols, kSpan>::kInRing) {
      uint4 of_chunk[kCols][Form::kInputVectors];
      inputs.read(slot + Item<Form, kRows, kSpan>::kBytes, block_of_item * Form::kChunks + c, of_chunk);
      multiply_chunk<Form, kRows, kCols>(sums, codes, scales, of_chunk);
    } else {
      multiply_chunk<Form, kRows, kCols>(sums, codes, scales, x[c]);
    }
  }
}

template <class Form, int kRows, int kCols, int kSpan, int kRing, int kWarpsMax, int kPerSm>
__global__ void __launch_bounds__(kWarpsMax * 32, kPerSm) skinny_kernel(const Matmul p, const Spread spread) {
  using I = Item<Form, kRows, kSpan>;
  using In = Inputs<Form, kCols, kSpan>;
  extern __shared__ __align__(128) std::byte shared[];
  const int warps = static_cast<int>(blockDim.x / kLanes);
  const int warp = static_cast<int>(threadIdx.x / kLanes);
  const unsigned lane = kept(threadIdx.x % kLanes);

  // An earlier kernel makes the tiles and the rows' numbers.
  const bool waits = (p.tiles.used != nullptr && !p.tiles.settled) || p.x_rows != nullptr;
  if (waits) wait_for_earlier();
  const RowTile tile = row_tile<kCols * 8>(p, blockIdx.y);
  if (tile.count <= 0) {
    if (!waits) wait_for_earlier();
    return;
  }
  const int64_t z = blockIdx.z;
  const Weight w = p.table == nullptr ? p.weight : p.table[tile.expert * p.table_stride + z];
  const int64_t out_cols = p.out_cols == 0 ? w.rows : p.out_cols;
  const int64_t col0 = static_cast<int64_t>(blockIdx.x) * I::kTileW;
  const int64_t w_row0 = col0 + z * p.w_batch_rows;
  const int rows_inside = static_cast<int>(min(static_cast<int64_t>(I::kTileW), out_cols - col0));
  const int blocks = static_cast<int>((w.cols + kBlockCols - 1) / kBlockCols);
  const int items = (blocks + I::kSpan - 1) / I::kSpan;

  WeightStream<Form, kRows, kSpan> stream(w, w_row0, rows_inside, lane, warp, warps);
  const WeightReader<Form, kRows, kSpan> weights(lane);
  const int slot_bytes = I::kBytes + In::bytes(spread.sum_rows);
  const std::byte* const ring = shared + warp * kRing * slot_bytes;
  const auto ring_address = static_cast<uint32_t>(__cvta_generic_to_shared(ring));
#pragma unroll
  for (int i = 0; i < kRing - 1; ++i) {
    if (warp + i * warps < items) stream.start_next(ring_address + i * slot_bytes, lane);
    commit_copies();
  }
  const int count = static_cast<int>(tile.count);
  In inputs(p, w, tile, z, w_row0, lane, warp, warps);
  if (!waits) wait_for_earlier();
  let_next_start();

  typename DirectInputs<Form, kCols>::Block x;
  if constexpr (In::kInRing) {
#pragma unroll
    for (int i = 0; i < kRing - 1; ++i) {
      if (warp + i * warps < items) inputs.start_next(ring_address + i * slot_bytes + I::kBytes, lane);
    }
    commit_copies();
  } else if constexpr (In::kAhead) {
    if (warp < items) inputs.load(warp * I::kSpan, x);
  }
  const int sums_of_block = spread.sum_rows * kSumStride<kRows>;
  const int blocks_of_round = spread.turns * warps * I::kSpan;
  float* sums_of_round = reinterpret_cast<float*>(shared + warps * kRing * slot_bytes);
  int other_buffer = blocks_of_round * sums_of_block;  // one is added up while the next round fills the other
  const int ring_bytes = kRing * slot_bytes;
  int slot = 0;
  int filled = ring_bytes - slot_bytes;  // the slot that the step before has read
  int item = warp;
  OwnedOutputs<kRows, kCols> outputs;
  for (int left = blocks; left > 0; left -= blocks_of_round) {
    float* target = sums_of_round + warp * I::kSpan * sums_of_block;
    for (int turn = 0; turn < spread.turns && item < items; ++turn, item += warps) {
      __syncwarp();  // all have read what is filled now
      if (item + (kRing - 1) * warps < items) {
        stream.start_next(ring_address + filled, lane);
        if constexpr (In::kInRing) inputs.start_next(ring_address + filled + I::kBytes, lane);
      }
      commit_copies();
      if (In::kInRing && item < warps) {
        wait_for_copies<1>();  // x of the first items came in one group behind the weights'
      } else {
        wait_for_copies<kRing - 1>();
      }
      __syncwarp();  // and all have waited for theirs
      const std::byte* const read = ring + slot;
#pragma unroll
      for (int s = 0; s < I::kSpan; ++s) {
        const int block = item * I::kSpan + s;
        if (s > 0 && block >= blocks) break;
        if constexpr (!In::kInRing && !In::kAhead) inputs.load(block, x);
        float sums[kRows][kCols][4] = {};
        multiply_block<Form, kRows, kCols, kSpan>(weights, read, s, inputs, x, sums);
        if constexpr (In::kAhead) {
          const int next = s + 1 < I::kSpan ? block + 1 : (item + warps) * I::kSpan;
          if (next < blocks) inputs.load(next, x);
        }
        float scale = 1;
        if constexpr (In::kInRing) scale = inputs.scale(read + I::kBytes, s, lane);
        store_sums<Form, kRows, kCols>(sums, scale, count, target + s * sums_of_block, lane);
      }
      target += warps * I::kSpan * sums_of_block;
      filled = slot;
      slot = slot + slot_bytes == ring_bytes ? 0 : slot + slot_bytes;
    }
    __syncthreads();
    outputs.template add<Form>(sums_of_round, min(left, blocks_of_round), spread.sum_rows, count);
    sums_of_round += other_buffer;
    other_buffer = -other_buffer;
  }
  outputs.each(count, [&](int row, int col, float total) {
    if (col < rows_inside) store_output(p, z, tile.first + row, col0 + col, finished<Form>(w, total));
  });
}

}  // namespace glint::ops::cuda
