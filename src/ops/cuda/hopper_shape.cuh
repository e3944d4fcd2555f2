// What the warpgroups of the many-row kernel share (matmul_hopper.cuh): its forms, the ring of stages in
// shared memory, and which block makes which tile.
#pragma once

#include "ops/cuda/hopper.cuh"
#include "ops/cuda/hopper_wgmma.cuh"
#include "ops/cuda/matmul_core.cuh"

namespace glint::ops::cuda::hopper {

constexpr int kTileX = 128;
constexpr int kPart = 128;       // rows of W that an instruction takes
constexpr int kStepBytes = 128;  // of a row of x and of W
constexpr int kAlign = 1024;     // of a swizzled tile
constexpr int kSharedMax = 227 * 1024;
constexpr int kBarrierBytes = 256;

struct Fp8 {
  static constexpr int kElement = 1;  // bytes of a value of x
  static constexpr bool kPromotes = true;
  static constexpr bool kWidens = false;
  __device__ static void step(float (&d)[64], uint32_t a, uint32_t b, bool add) {
    multiply_fp8(d, a, b, add);
  }
};
struct Bf16 {
  static constexpr int kElement = 2;
  static constexpr bool kPromotes = false;
  static constexpr bool kWidens = false;
  template <class Sums>
  __device__ static void step(Sums& d, uint32_t a, uint32_t b, bool add) {
    multiply_bf16(d, a, b, add);
  }
};

/// NVFP4 weights, which the first warpgroup widens into the ring.
struct Fp4 : Bf16 {
  static constexpr bool kWidens = true;
};

/// A form of the kernel: rows of W in a tile, blocks in a cluster, whether rows of x are gathered.
template <class Form_, int kTileW_, int kCluster_, bool kGathers_>
struct Shape {
  using Form = Form_;
  static constexpr int kTileW = kTileW_, kCluster = kCluster_;
  static constexpr bool kGathers = kGathers_;
  static constexpr int kGroup = 16 / kCluster;  // of Schedule
  static constexpr bool kWidens = Form::kWidens;
  static_assert(kCluster == 1 || !(kGathers || kWidens));
  static constexpr int kParts = kTileW / kPart;
  static_assert(kParts <= 2 && kPart == kScaleBlock);
  static constexpr int kBytesX = kTileX * kStepBytes;
  static constexpr int kBytesW = kTileW * kStepBytes;
  static constexpr int kStageBytes = kBytesX + kBytesW;
  // Of a stage: the scales of kTileX rows, then of kParts blocks of W.
  static constexpr int kScaleBytes = Form::kPromotes ? (kTileX + 4) * 4 : 0;
  static constexpr int kStages = (kSharedMax - kAlign - kBarrierBytes) / (kStageBytes + kScaleBytes);
  static constexpr int kSharedBytes = kStages * (kStageBytes + kScaleBytes) + kAlign + kBarrierBytes;
  // One instruction for both parts: not with 128 registers a thread before they are shared out.
  static constexpr bool kWhole = kParts == 2 && !kWidens;
  static constexpr int kFillThreads = kWidens ? 256 : 128;
  static constexpr int kThreads = kFillThreads + 256;
  static constexpr int kBytesByEngine = (kWidens ? 0 : kBytesW) + (kGathers ? 0 : kBytesX);
  static constexpr int kFillers =  // arrivals that make a stage full
      (kBytesByEngine > 0 ? 1 : 0) + (kGathers ? kFillThreads : 0) + (kWidens ? kFillThreads : 0) +
      (Form::kPromotes && !kGathers ? 32 : 0);
  static constexpr int kPassAfter = 1;  // products of a step before the other warpgroup's may start
  static constexpr int kFillRegisters = 72;
  static constexpr int kMultiplyRegisters = kWidens ? 184 : 216;
};

/// A place in the ring and how often it was passed.
template <int kStages>
struct Place {
  int stage = 0;
  uint32_t phase = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

template <class S>
struct Ring {
  static constexpr int kFull = S::kStages * S::kStageBytes;
  static constexpr int kEmpty = kFull + S::kStages * 8;
  static constexpr int kScales = kFull + kBarrierBytes;
  static_assert(kEmpty + S::kStages * 8 <= kScales);
  uint32_t stages;
  __device__ explicit Ring(std::byte* raw) {
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(raw));
    stages = (address + kAlign - 1) / kAlign * kAlign;
  }
  __device__ void initialise() const {
    for (int i = 0; i < S::kStages; ++i) {
      init_barrier(stages + kFull + i * 8, S::kFillers);
      init_barrier(stages + kEmpty + i * 8, 8 * S::kCluster);  // each warp that multiplies, in each block
    }
    publish_barriers();
  }
  __device__ __forceinline__ uint32_t stage(const Place<S::kStages>& at) const {
    return stages + at.stage * S::kStageBytes;
  }
  __device__ __forceinline__ uint32_t scales(const Place<S::kStages>& at) const {
    return stages + kScales + at.stage * S::kScaleBytes;
  }
  __device__ __forceinline__ uint32_t full_barrier(const Place<S::kStages>& at) const {
    return stages + kFull + at.stage * 8;
  }
  __device__ __forceinline__ void wait_full(const Place<S::kStages>& at) const {
    wait_for_phase(full_barrier(at), at.phase);
    if constexpr (S::kGathers) fence_for_async();  // of what the copies of threads wrote
  }
  __device__ __forceinline__ void wait_empty(const Place<S::kStages>& at) const {
    wait_for_phase(stages + kEmpty + at.stage * 8, at.phase ^ 1);
  }
  __device__ __forceinline__ void release(const Place<S::kStages>& at) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint32_t empty = stages + kEmpty + at.stage * 8;
    if constexpr (S::kCluster == 1) {
      if (lane == 0) arrive(empty);
    } else {
      if (lane < S::kCluster) arrive_at(empty, lane);
    }
  }
};

/// One tile of y.
struct Tile {
  int first, count, expert;  // rows of y, as RowTile
  int z, col0;
};

/// Which tiles a block makes, in an order in which those that run together share what they read: kGroup tiles
/// of x meet one tile of W, then the next.
template <class S>
class Schedule {
 public:
  __device__ Schedule(const Matmul& p, int64_t out_cols) : p_(p) {
    row_units_ = (static_cast<int>(used_row_tiles<kTileX>(p)) + S::kCluster - 1) / S::kCluster;
    col_tiles_ = static_cast<int>((out_cols + S::kTileW - 1) / S::kTileW);
    cols_ = col_tiles_ * static_cast<int>(p.batch);
    next_ = static_cast<int>(blockIdx.x) / S::kCluster;
  }
  /// False after the last.
  __device__ __forceinline__ bool next(Tile& tile) {
    if (next_ >= row_units_ * cols_) return false;
    const int group_size = S::kGroup * cols_;
    const int group = next_ / group_size;
    const int in_group = min(S::kGroup, row_units_ - group * S::kGroup);
    const int rest = next_ % group_size;
    const int unit = group * S::kGroup + rest % in_group;
    const int col = rest / in_group;
    const RowTile rows = row_tile<kTileX>(p_, S::kCluster == 1 ? unit : unit * S::kCluster + cluster_rank());
    tile = {static_cast<int>(rows.first), static_cast<int>(rows.count), static_cast<int>(rows.expert),
            col / col_tiles_, col % col_tiles_ * S::kTileW};
    next_ += static_cast<int>(gridDim.x) / S::kCluster;
    return true;
  }

 private:
  const Matmul& p_;
  int row_units_, col_tiles_, cols_, next_;
};

__device__ __forceinline__ int64_t row_of_x(const Matmul& p, int64_t y_row) {
  return p.x_rows == nullptr ? y_row : p.x_rows[y_row];
}
__device__ __forceinline__ const Weight& weight_of(const Matmul& p, const Tile& tile) {
  return p.table == nullptr ? p.weight : p.table[tile.expert * p.table_stride + tile.z];
}
template <class S>
__device__ __forceinline__ int steps_of(const Matmul& p) {
  return static_cast<int>((p.weight.cols * S::Form::kElement + kStepBytes - 1) / kStepBytes);
}

}  // namespace glint::ops::cuda::hopper
