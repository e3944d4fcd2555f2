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

// NVFP4 inside the sums: a bfloat16 whose exponent and mantissa hold an E2M1 magnitude's three bits is the
// value times 2^-126, so one exact product with the group's scale times 2^118 makes the value times the scale
// times 2^-8, which finished() takes back.
constexpr float kFp4ScaleUp = 0x1p118F;
constexpr float kFp4SumUp = 256.0F;

/// Codes k and k + 4 of the eight in `codes`, in the two halves. Magnitude bits go to bits 6 to 8 of a half
/// and the sign to bit 15; signs of other codes that come along stand where a magnitude replaces them.
template <int k>
__device__ __forceinline__ uint32_t widen_e2m1(uint32_t codes, uint32_t scale) {
  constexpr uint32_t kMagnitudes = 0x01C001C0U;
  constexpr int kUp = 6 - 4 * k;
  const uint32_t magnitudes = kUp > 0 ? codes << (kUp & 31) : codes >> (-kUp & 31);
  // The sign masks of k and k + 2 are the same word's, eight bits apart.
  const uint32_t signs_of_half = choose_bits(k % 2 == 1 ? codes : codes << 4, 0, 0x80808080U);
  const uint32_t signs = k < 2 ? signs_of_half << 8 : signs_of_half;
  return multiply_bf16_pair(choose_bits(magnitudes, signs, kMagnitudes), scale);
}

/// The values of one thread's 16 bytes of a weight row for instruction `step`: the four columns that
/// input_values() takes, two and two. `scales`: of NVFP4, the bfloat16 scales of its two groups, each twice.
template <class Form>
__device__ __forceinline__ void weight_values(const uint4& raw, const uint32_t (&scales)[2], int step,
                                              uint32_t& low, uint32_t& high) {
  if constexpr (Form::kFormat == WeightFormat::bf16) {
    low = word(raw, 2 * step);
    high = word(raw, 2 * step + 1);
  } else if constexpr (Form::kFormat == WeightFormat::fp8_block) {
    half_pairs_of_e4m3(word(raw, step), low, high);
  } else {
    // Columns 0 and 4, 1 and 5 of a word's eight, then 2 and 6, 3 and 7.
    const uint32_t codes = word(raw, step / 2);
    const uint32_t scale = scales[step / 4];
    low = step % 2 == 0 ? widen_e2m1<0>(codes, scale) : widen_e2m1<2>(codes, scale);
    high = step % 2 == 0 ? widen_e2m1<1>(codes, scale) : widen_e2m1<3>(codes, scale);
  }
}

/// The same of x.
template <class Form>
__device__ __forceinline__ void input_values(const uint4 (&raw)[Form::kInputVectors], int step, uint32_t& low,
                                             uint32_t& high) {
  if constexpr (Form::kFormat == WeightFormat::fp8_block) {
    half_pairs_of_e4m3(word(raw[0], step), low, high);
  } else if constexpr (Form::kFormat == WeightFormat::nvfp4) {
    const uint32_t first = word(raw[step / 2], step % 2);
    const uint32_t second = word(raw[step / 2], step % 2 + 2);
    low = __byte_perm(first, second, 0x5410);
    high = __byte_perm(first, second, 0x7632);
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

/// Two E4M3 scales of neighbouring groups as weight_values() takes them (exact in bfloat16).
__device__ __forceinline__ void widen_scales(uint16_t codes, uint32_t (&scales)[2]) {
  const uint32_t halves = half_pair_of_e4m3(codes);
  const float2 values = __half22float2(*reinterpret_cast<const __half2*>(&halves));
  const float first = __fmul_rn(values.x, kFp4ScaleUp);
  const float second = __fmul_rn(values.y, kFp4ScaleUp);
  scales[0] = bf16_pair(first, first);
  scales[1] = bf16_pair(second, second);
}

/// The two group scales that belong to 16 bytes of NVFP4 of a row.
__device__ __forceinline__ void group_scales(const Weight& w, int64_t row, int64_t byte, bool valid,
                                             uint32_t (&scales)[2]) {
  uint16_t codes = 0;
  if (valid)
    codes = *reinterpret_cast<const uint16_t*>(w.block_scale + (row * w.cols / kFp4Group + byte / 8));
  widen_scales(codes, scales);
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
    const float whole = __fmul_rn(sum, kFp4SumUp);
    return w.global_divides ? __fdiv_rn(whole, w.global_scale) : __fmul_rn(whole, w.global_scale);
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
  const auto parts = static_cast<uint32_t>((p.tiles.tile_rows + kTileRows - 1) / kTileRows);
  const uint32_t tile = static_cast<uint32_t>(index) / parts;
  if (tile >= static_cast<uint32_t>(*p.tiles.used)) return {};
  const int64_t skip = static_cast<uint32_t>(index) % parts * kTileRows;
  return {p.tiles.first[tile] + skip, min(static_cast<int64_t>(kTileRows), p.tiles.count[tile] - skip),
          p.tiles.expert[tile]};
}
/// How many of them hold rows.
template <int kTileRows>
__device__ __forceinline__ int64_t used_row_tiles(const Matmul& p) {
  if (p.tiles.used == nullptr) return (p.rows + kTileRows - 1) / kTileRows;
  return *p.tiles.used * ((p.tiles.tile_rows + kTileRows - 1) / kTileRows);
}
template <int kTileRows>
int64_t row_tile_count(const Matmul& p) {
  if (p.tiles.used == nullptr) return (p.rows + kTileRows - 1) / kTileRows;
  return p.tiles.tiles_max * ((p.tiles.tile_rows + kTileRows - 1) / kTileRows);
}

}  // namespace glint::ops::cuda
