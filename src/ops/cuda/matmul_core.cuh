// What the tensor-core products share: how 64 bytes of a weight row and the matching values of x become
// fragments, and in which order they are added (matmul.h).
//
// Weights are the instruction's 16 x 16 operand (rows of W), x its 16 x 8 operand (rows of x). The four
// threads that share a row each hold 16 neighbouring bytes of it, whatever the format; which column stands at
// which of the instruction's places does not matter as long as both operands agree.
#pragma once

#include "ops/cuda/device_math.cuh"
#include "ops/cuda/matmul.h"

namespace glint::ops::cuda {

constexpr int kBlockCols = 128;  // columns whose sum starts from zero
constexpr int kChunkBytes = 64;  // of a weight row: four threads, 16 bytes each

struct Bf16Form {
  static constexpr WeightFormat kFormat = WeightFormat::bf16;
  static constexpr int kChunks = 4;         // of a block
  static constexpr int kInputVectors = 1;   // 16-byte vectors of x that match a thread's 16 bytes of W
  static constexpr int kWeightBytes = 256;  // of a block's row
  static constexpr int kInputBytes = 256;
  static constexpr int kSteps = 2;  // instructions of a chunk
};
struct Fp8Form {
  static constexpr WeightFormat kFormat = WeightFormat::fp8_block;
  static constexpr int kChunks = 2;
  static constexpr int kInputVectors = 1;
  static constexpr int kWeightBytes = 128;
  static constexpr int kInputBytes = 128;
  static constexpr int kSteps = 4;
};
struct Fp4Form {
  static constexpr WeightFormat kFormat = WeightFormat::nvfp4;
  static constexpr int kChunks = 1;
  static constexpr int kInputVectors = 4;
  static constexpr int kWeightBytes = 64;
  static constexpr int kInputBytes = 256;
  static constexpr int kSteps = 8;
};

__device__ __forceinline__ uint32_t word(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/// Four neighbouring E2M1 codes (16 bits) to bfloat16, times the group's scale twice over in `scale`: exact.
__device__ __forceinline__ void widen_e2m1(uint32_t codes, uint32_t scale, uint32_t& low, uint32_t& high) {
  // As in e2m1_value: the magnitude bits in a bfloat16's place are the value times 2^-126.
  constexpr uint32_t kUp = 0x7E807E80U;  // 2^126 twice
  const auto pair = [&](uint32_t byte) {
    const uint32_t magnitude = (byte & 0x7U) << 6 | (byte & 0x70U) << 18;
    const uint32_t sign = (byte & 0x8U) << 12 | (byte & 0x80U) << 24;
    return multiply_bf16_pair(multiply_bf16_pair(magnitude | sign, kUp), scale);
  };
  low = pair(codes & 0xFFU);
  high = pair(codes >> 8 & 0xFFU);
}

/// The values of one thread's 16 bytes of a weight row for instruction `step`: columns (0, 1) and (2, 3) of
/// its four. `scales`: of NVFP4, the bfloat16 scales of its two groups, each twice.
template <class Form>
__device__ __forceinline__ void weight_values(const uint4& raw, const uint32_t (&scales)[2], int step,
                                              uint32_t& low, uint32_t& high) {
  if constexpr (Form::kFormat == WeightFormat::bf16) {
    low = word(raw, 2 * step);
    high = word(raw, 2 * step + 1);
  } else if constexpr (Form::kFormat == WeightFormat::fp8_block) {
    const uint32_t codes = word(raw, step);
    low = half_pair_of_e4m3(static_cast<uint16_t>(codes & 0xFFFFU));
    high = half_pair_of_e4m3(static_cast<uint16_t>(codes >> 16));
  } else {
    widen_e2m1(word(raw, step / 2) >> (step % 2 * 16) & 0xFFFFU, scales[step / 4], low, high);
  }
}

/// The same of x.
template <class Form>
__device__ __forceinline__ void input_values(const uint4 (&raw)[Form::kInputVectors], int step, uint32_t& low,
                                             uint32_t& high) {
  if constexpr (Form::kFormat == WeightFormat::fp8_block) {
    const uint32_t codes = word(raw[0], step);
    low = half_pair_of_e4m3(static_cast<uint16_t>(codes & 0xFFFFU));
    high = half_pair_of_e4m3(static_cast<uint16_t>(codes >> 16));
  } else {
    low = word(raw[step / 2], step % 2 * 2);
    high = word(raw[step / 2], step % 2 * 2 + 1);
  }
}

/// sums += the products of one chunk: kRows times 16 rows of W, kCols times 8 rows of x.
template <class Form, int kRows, int kCols>
__device__ __forceinline__ void multiply_chunk(float (&sums)[kRows][kCols][4], const uint4 (&w)[kRows][2],
                                               const uint32_t (&scales)[kRows][2][2],
                                               const uint4 (&x)[kCols][Form::kInputVectors]) {
#pragma unroll
  for (int step = 0; step < Form::kSteps; ++step) {
    uint32_t b[kCols][2];
#pragma unroll
    for (int j = 0; j < kCols; ++j) input_values<Form>(x[j], step, b[j][0], b[j][1]);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      uint32_t a[4];
      weight_values<Form>(w[i][0], scales[i][0], step, a[0], a[2]);
      weight_values<Form>(w[i][1], scales[i][1], step, a[1], a[3]);
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
        if constexpr (Form::kFormat == WeightFormat::fp8_block) {
          mma_f16(sums[i][j], a[0], a[1], a[2], a[3], b[j][0], b[j][1]);
        } else {
          mma_bf16(sums[i][j], a[0], a[1], a[2], a[3], b[j][0], b[j][1]);
        }
      }
    }
  }
}

/// The two group scales that belong to 16 bytes of NVFP4 of a row, as bfloat16 pairs (E4M3 is exact there).
__device__ __forceinline__ void group_scales(const Weight& w, int64_t row, int64_t byte, bool valid,
                                             uint32_t (&scales)[2]) {
  uint16_t codes = 0;
  if (valid)
    codes = *reinterpret_cast<const uint16_t*>(w.block_scale + (row * w.cols / kFp4Group + byte / 8));
  const float first = e4m3_value(static_cast<uint8_t>(codes & 0xFFU));
  const float second = e4m3_value(static_cast<uint8_t>(codes >> 8));
  scales[0] = bf16_pair(first, first);
  scales[1] = bf16_pair(second, second);
}

/// Bytes of a row of W and of x.
template <class Form>
__device__ __forceinline__ int64_t weight_row_bytes(int64_t cols) {
  return cols * Form::kWeightBytes / kBlockCols;
}
template <class Form>
__device__ __forceinline__ int64_t input_row_bytes(int64_t cols) {
  return cols * Form::kInputBytes / kBlockCols;
}

/// What a finished sum becomes.
template <class Form>
__device__ __forceinline__ float finished(const Weight& w, float sum) {
  if constexpr (Form::kFormat == WeightFormat::nvfp4) {
    return w.global_divides ? __fdiv_rn(sum, w.global_scale) : __fmul_rn(sum, w.global_scale);
  } else {
    return sum;
  }
}

/// y[row][col] of batch z, in the type that y has: chosen at run time, so that a kernel is compiled once for
/// both.
__device__ __forceinline__ void store_output(const Matmul& p, int64_t z, int64_t row, int64_t col,
                                             float value) {
  const int64_t at = row * p.y_stride + z * p.y_batch + col;
  if (p.y_is_float) {
    static_cast<float*>(p.y)[at] = value;
  } else {
    static_cast<__nv_bfloat16*>(p.y)[at] = __float2bfloat16_rn(value);
  }
}

/// The rows of y that a block makes.
struct RowTile {
  int64_t first = 0, count = 0, expert = 0;
};
/// Tile `index` of tiles of at most kTileRows rows (a group's tiles may be larger and are cut then).
template <int kTileRows>
__device__ __forceinline__ RowTile row_tile(const Matmul& p, int64_t index) {
  if (p.tiles.used == nullptr) {
    return {index * kTileRows, min(static_cast<int64_t>(kTileRows), p.rows - index * kTileRows), 0};
  }
  const int64_t parts = (p.tiles.tile_rows + kTileRows - 1) / kTileRows;
  const int64_t tile = index / parts;
  if (tile >= *p.tiles.used) return {};
  const int64_t skip = index % parts * kTileRows;
  return {p.tiles.first[tile] + skip, min(static_cast<int64_t>(kTileRows), p.tiles.count[tile] - skip),
          p.tiles.expert[tile]};
}
template <int kTileRows>
int64_t row_tile_count(const Matmul& p) {
  if (p.tiles.used == nullptr) return (p.rows + kTileRows - 1) / kTileRows;
  return p.tiles.tiles_max * ((p.tiles.tile_rows + kTileRows - 1) / kTileRows);
}

}  // namespace glint::ops::cuda
