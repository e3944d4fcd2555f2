// The warpgroups of the many-row kernel that fill the ring.
#pragma once

#include "ops/cuda/hopper_shape.cuh"

namespace glint::ops::cuda::hopper {

/// The engine's part of a stage.
template <class S>
__device__ __forceinline__ void copy_stage(const Matmul& p, const CUtensorMap& x_map,
                                           const CUtensorMap& w_map, const Tile& tile, int step,
                                           uint32_t stage, uint32_t full) {
  arrive_for_bytes(full, S::kBytesByEngine);
  const int byte = step * kStepBytes;
  if constexpr (!S::kGathers) {
    const int slice = p.x_batch == 0 ? 0 : tile.z;
    copy_tile(stage, x_map, {byte, tile.first, slice, 0}, full);
  }
  if constexpr (!S::kWidens) {
    const int slice = p.table == nullptr ? 0 : tile.z;
    TileOrigin w{byte, static_cast<int>(tile.col0 + tile.z * p.w_batch_rows), slice, tile.expert};
    if constexpr (S::kCluster == 1) {
      copy_tile(stage + S::kBytesX, w_map, w, full);
    } else {
      constexpr int kShare = S::kTileW / S::kCluster;
      w.row += cluster_rank() * kShare;
      copy_tile_to((1 << S::kCluster) - 1, stage + S::kBytesX + cluster_rank() * kShare * kStepBytes, w_map,
                   w, full);
    }
  }
}

/// The scales that `kThreads` threads copy: a row of x for each, or more, and of the first threads W's
/// blocks.
template <class S, int kThreads>
struct CopiedScales {
  static constexpr int kRows = kTileX / kThreads;
  const float* x[kRows];
  const float* w;
  int thread;

  __device__ CopiedScales(const Matmul& p, const Tile& tile, int steps, int64_t out_cols, int thread_)
      : thread(thread_) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = thread + i * kThreads;
      x[i] = p.x_scales + row_of_x(p, row < tile.count ? tile.first + row : 0) * p.x_scale_stride;
    }
    const int part = thread < S::kParts && tile.col0 + thread * kPart < out_cols ? thread : 0;
    w = static_cast<const float*>(weight_of(p, tile).scale) +
        (tile.col0 / kScaleBlock + part) * int64_t{steps};
  }
  __device__ __forceinline__ void copy(int step, uint32_t to) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) copy_word_async(to + (thread + i * kThreads) * 4, x[i] + step);
    if (thread < S::kParts) copy_word_async(to + (kTileX + thread) * 4, w + step);
  }
};

/// The first warpgroup where the engine copies all: a thread for the tiles, a warp for the scales.
template <class S>
__device__ __forceinline__ void fill_by_engine(const Matmul& p, const CUtensorMap& x_map,
                                               const CUtensorMap& w_map, const Ring<S>& ring,
                                               Schedule<S>& schedule, int64_t out_cols) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int steps = steps_of<S>(p);
  Place<S::kStages> at;
  Tile tile;
  if (threadIdx.x == 0) {
    while (schedule.next(tile)) {
      for (int step = 0; step < steps; ++step, at.advance()) {
        ring.wait_empty(at);
        copy_stage<S>(p, x_map, w_map, tile, step, ring.stage(at), ring.full_barrier(at));
      }
    }
  } else if (S::Form::kPromotes && warp == 1) {
    while (schedule.next(tile)) {
      const CopiedScales<S, 32> scales(p, tile, steps, out_cols, static_cast<int>(threadIdx.x) % 32);
      for (int step = 0; step < steps; ++step, at.advance()) {
        ring.wait_empty(at);
        scales.copy(step, ring.scales(at));
        arrive_after_copies(ring.full_barrier(at));
      }
    }
    wait_for_copies<0>();
  }
}

/// Rows of x that a thread copies, 16 bytes of each.
template <class S>
struct GatheredRows {
  static constexpr int kApart = S::kFillThreads / 8;
  static constexpr int kRows = kTileX / kApart;
  const std::byte* from[kRows];  // null: no such row
  const std::byte* x;
  int64_t row_bytes;
  int u, first;

  __device__ GatheredRows(const Matmul& p, const Tile& tile)
      : x(static_cast<const std::byte*>(p.x) + tile.z * p.x_batch * S::Form::kElement),
        row_bytes(p.weight.cols * S::Form::kElement),
        u(static_cast<int>(threadIdx.x) % 8),
        first(static_cast<int>(threadIdx.x) / 8) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = first + i * kApart;
      from[i] =
          row < tile.count ? x + row_of_x(p, tile.first + row) * p.x_stride * S::Form::kElement : nullptr;
    }
  }
  __device__ __forceinline__ void copy(int step, uint32_t stage) const {
    const int byte = step * kStepBytes + u * 16;
    const uint32_t to = stage + first * kStepBytes + ((u ^ (first & 7)) * 16);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const bool valid = from[i] != nullptr && byte < row_bytes;
      copy_async(to + i * kApart * kStepBytes, valid ? from[i] + byte : x, valid);
    }
  }
};

/// Rows of an NVFP4 matrix that a thread widens, one half of a step's 64 columns.
template <class S>
struct WidenedRows {
  static constexpr int kApart = S::kFillThreads / 2;
  static constexpr int kRows = S::kTileW / kApart;
  struct Stored {
    uint4 codes[kRows];
    uint16_t scales[kRows];
  };
  const std::byte* codes;  // of the tile's first row
  const uint8_t* scales;
  int64_t row_bytes, out_rows;
  int half, first;

  __device__ WidenedRows(const Matmul& p, const Tile& tile, int64_t out_cols)
      : row_bytes(p.weight.cols / 2),
        out_rows(out_cols - tile.col0),
        half(static_cast<int>(threadIdx.x) % 2),
        first(static_cast<int>(threadIdx.x) / 2) {
    const Weight& w = weight_of(p, tile);
    const int64_t row0 = tile.col0 + tile.z * p.w_batch_rows;
    codes = static_cast<const std::byte*>(w.data) + row0 * row_bytes;
    scales = w.block_scale + row0 * (row_bytes / 8);
  }
  __device__ __forceinline__ Stored read(int step) const {
    Stored stored;
    const int byte = step * 32 + half * 16;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = first + i * kApart;
      stored.codes[i] = {};
      stored.scales[i] = 0;
      if (row < out_rows && byte < row_bytes) {
        const int64_t at = row * row_bytes + byte;
        stored.codes[i] = __ldg(reinterpret_cast<const uint4*>(codes + at));
        stored.scales[i] = __ldg(reinterpret_cast<const uint16_t*>(scales + at / 8));
      }
    }
    return stored;
  }
  __device__ __forceinline__ void write(const Stored& stored, uint32_t tile) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = first + i * kApart;
      uint32_t factors[2];
      widen_scales(stored.scales[i], factors);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint32_t eight = word(stored.codes[i], j);
        const uint32_t a = widen_e2m1<0>(eight, factors[j / 2]);
        const uint32_t b = widen_e2m1<1>(eight, factors[j / 2]);
        const uint32_t c = widen_e2m1<2>(eight, factors[j / 2]);
        const uint32_t d = widen_e2m1<3>(eight, factors[j / 2]);
        // Columns 0 and 4, 1 and 5, 2 and 6, 3 and 7, put in order.
        store_shared(tile + row * kStepBytes + (((4 * half + j) ^ (row & 7)) * 16),
                     {__byte_perm(a, b, 0x5410), __byte_perm(c, d, 0x5410), __byte_perm(a, b, 0x7632),
                      __byte_perm(c, d, 0x7632)});
      }
    }
  }
};

/// The first warpgroup where its threads copy rows of x or widen W.
template <class S>
__device__ __forceinline__ void fill_by_threads(const Matmul& p, const CUtensorMap& x_map,
                                                const CUtensorMap& w_map, const Ring<S>& ring,
                                                Schedule<S>& schedule, int64_t out_cols) {
  const int steps = steps_of<S>(p);
  Place<S::kStages> at;
  Tile tile;
  const auto fill_x = [&](const GatheredRows<S>& rows, int step,
                          const CopiedScales<S, S::kFillThreads>* scales) {
    ring.wait_empty(at);
    if constexpr (S::kBytesByEngine > 0) {
      if (threadIdx.x == 0) copy_stage<S>(p, x_map, w_map, tile, step, ring.stage(at), ring.full_barrier(at));
    }
    if constexpr (S::kGathers) {
      rows.copy(step, ring.stage(at));
      if constexpr (S::Form::kPromotes) scales->copy(step, ring.scales(at));
      arrive_after_copies(ring.full_barrier(at));
    }
  };
  while (schedule.next(tile)) {
    const GatheredRows<S> rows(p, tile);
    if constexpr (S::kWidens) {
      const WidenedRows<S> weights(p, tile, out_cols);
      typename WidenedRows<S>::Stored ahead[2] = {weights.read(0), weights.read(1)};
      for (int pair = 0; pair < steps; pair += 2) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (pair + i >= steps) break;
          fill_x(rows, pair + i, nullptr);
          weights.write(ahead[i], ring.stage(at) + S::kBytesX);
          ahead[i] = weights.read(pair + i + 2);
          fence_for_async();
          arrive(ring.full_barrier(at));
          at.advance();
        }
      }
    } else {
      if constexpr (S::Form::kPromotes) {
        const CopiedScales<S, S::kFillThreads> scales(p, tile, steps, out_cols,
                                                      static_cast<int>(threadIdx.x));
        for (int step = 0; step < steps; ++step, at.advance()) fill_x(rows, step, &scales);
      } else {
        for (int step = 0; step < steps; ++step, at.advance()) fill_x(rows, step, nullptr);
      }
    }
  }
  wait_for_copies<0>();
}

}  // namespace glint::ops::cuda::hopper
