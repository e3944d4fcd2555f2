// One tile of the sparse attention: 64 selected rows are gathered into shared memory as bfloat16, scored,
// softened and summed. Keys are the instruction's 16 rows, heads its 8 columns, so that 8 heads need no
// padding.
#pragma once

#include "ops/cuda/cache_rows.cuh"
#include "ops/cuda/sparse_attention.h"

namespace glint::ops::cuda {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kLatent = 512;
constexpr int kRope = 64;
constexpr int kWidth = kLatent + kRope;
constexpr int kUnits = kWidth * 2 / 16;  // 16-byte units of a row
constexpr int kStride = kUnits + 1;      // in units; odd, so that eight rows lie in different banks
constexpr int kTile = 64;                // positions
constexpr int kTilesPerGroup = 2;
constexpr int kGroup = kTile * kTilesPerGroup;
constexpr int kProbabilityStride = kTile + 8;  // bfloat16 values
constexpr int kHeadsMax = 32;

template <int kCols>
struct SharedLayout {
  static constexpr int kHeads = kCols * 8;
  static constexpr int kKeysBytes = kTile * kStride * 16;
  static constexpr int kQueryBytes = kHeads * kStride * 16;
  static constexpr int kScoreBytes = 2 * kTile * (kHeads + 1) * 4;
  static constexpr int kProbabilityBytes = kHeads * kProbabilityStride * 2;
  static constexpr int kBytes = kKeysBytes + kQueryBytes + kScoreBytes + kProbabilityBytes + 4 * kHeads * 4;
};

__device__ __forceinline__ void load_matrices(uint32_t address, uint32_t (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address));
}
__device__ __forceinline__ void load_matrices_turned(uint32_t address, uint32_t (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address));
}

__device__ __forceinline__ uint32_t scaled_pair(uint32_t codes, float scale) {
  const uint32_t halves = half_pair_of_e4m3(static_cast<uint16_t>(codes));
  const float2 values = __half22float2(*reinterpret_cast<const __half2*>(&halves));
  return bf16_pair(values.x * scale, values.y * scale);
}

/// A quarter of a selected row as it lies in the cache: what a thread gathers of a tile of FP8 rows.
struct RawRow {
  uint4 codes[8];
  uint4 others[2];
  float scale;
  bool valid;
};

__device__ __forceinline__ void load_raw(const SparseAttention& a, int64_t row, const int32_t* list,
                                         int count, RawRow& raw) {
  const int key = static_cast<int>(threadIdx.x) / 4;
  const int part = static_cast<int>(threadIdx.x) % 4;  // 128 latent values each
  raw.valid = key < count;
  if (!raw.valid) return;
  const std::byte* source = cache_row(a.cache, page_of(a.rows, row, list[key]), list[key] % kPageTokens);
#pragma unroll
  for (int i = 0; i < 8; ++i) raw.codes[i] = reinterpret_cast<const uint4*>(source)[part * 8 + i];
  raw.scale = reinterpret_cast<const float*>(source + kLatent)[part];
  const auto* others = reinterpret_cast<const uint4*>(source + kLatent + 16);
  raw.others[0] = others[part];
  raw.others[1] = others[4 + part];
}

/// Into shared memory as bfloat16; rows that are none become zeros.
__device__ __forceinline__ void store_raw(const RawRow& raw, uint4* keys) {
  const int key = static_cast<int>(threadIdx.x) / 4;
  const int part = static_cast<int>(threadIdx.x) % 4;
  uint4* target = keys + key * kStride;
  if (!raw.valid) {
    for (int u = part; u < kUnits; u += 4) target[u] = uint4{};
    return;
  }
  target[kLatent / 8 + part] = raw.others[0];
  target[kLatent / 8 + 4 + part] = raw.others[1];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint4& codes = raw.codes[i];
    uint4 low;
    uint4 high;
    low.x = scaled_pair(codes.x & 0xFFFFU, raw.scale);
    low.y = scaled_pair(codes.x >> 16, raw.scale);
    low.z = scaled_pair(codes.y & 0xFFFFU, raw.scale);
    low.w = scaled_pair(codes.y >> 16, raw.scale);
    high.x = scaled_pair(codes.z & 0xFFFFU, raw.scale);
    high.y = scaled_pair(codes.z >> 16, raw.scale);
    high.z = scaled_pair(codes.w & 0xFFFFU, raw.scale);
    high.w = scaled_pair(codes.w >> 16, raw.scale);
    target[part * 16 + 2 * i] = low;
    target[part * 16 + 2 * i + 1] = high;
  }
}

/// Starts the copies of a tile of bfloat16 rows; rows that are none become zeros.
__device__ __forceinline__ void copy_rows(const SparseAttention& a, int64_t row, const int32_t* list,
                                          int count, uint32_t keys_address) {
  const int key = static_cast<int>(threadIdx.x) / 4;
  const bool valid = key < count;
  const std::byte* source = a.cache.base;
  if (valid) source = cache_row(a.cache, page_of(a.rows, row, list[key]), list[key] % kPageTokens);
  for (int u = static_cast<int>(threadIdx.x) % 4; u < kUnits; u += 4) {
    copy_async(keys_address + (key * kStride + u) * 16, valid ? source + u * 16 : source, valid);
  }
  commit_copies();
}

/// scores[half][key][head] of the tile: the warps share it by 16 keys and by halves of the width.
template <int kCols>
__device__ void score_tile(uint32_t keys_address, uint32_t query_address, float* scores) {
  constexpr int kHeads = kCols * 8;
  constexpr int kSteps = kWidth / 16 / 2;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int key0 = warp % 4 * 16;
  const int half = warp / 4;
  float sums[kCols][4] = {};
  // Lanes 0 - 7, 8 - 15, 16 - 23, 24 - 31 name the rows of the four 8 x 8 matrices.
  const uint32_t key_lane = keys_address + ((key0 + lane % 16) * kStride + lane / 16) * 16;
  const uint32_t query_lane = query_address + ((lane % 8) * kStride + lane / 8 % 2) * 16;
#pragma unroll 6
  for (int step = half * kSteps; step < (half + 1) * kSteps; ++step) {
    uint32_t k[4];
    load_matrices(key_lane + step * 32, k);
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
      uint32_t b0;
      uint32_t b1;
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                   : "=r"(b0), "=r"(b1)
                   : "r"(query_lane + j * 8 * kStride * 16 + step * 32));
      mma_bf16(sums[j], k[0], k[1], k[2], k[3], b0, b1);
    }
  }
  float* target = scores + half * kTile * (kHeads + 1);
  const int g = lane / 4;
  const int t = lane % 4;
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
    target[(key0 + g) * (kHeads + 1) + j * 8 + 2 * t] = sums[j][0];
    target[(key0 + g) * (kHeads + 1) + j * 8 + 2 * t + 1] = sums[j][1];
    target[(key0 + g + 8) * (kHeads + 1) + j * 8 + 2 * t] = sums[j][2];
    target[(key0 + g + 8) * (kHeads + 1) + j * 8 + 2 * t + 1] = sums[j][3];
  }
}

/// Running softmax of the heads over the tiles of a group: probabilities of this tile, the factor for what
/// was summed before.
template <int kCols>
__device__ void soften_tile(const float* scores, float scale, int count, bool first_tile,
                            __nv_bfloat16* probabilities, float* largest, float* sum, float* factor) {
  constexpr int kHeads = kCols * 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int head = static_cast<int>(threadIdx.x) / 32; head < kHeads; head += kWarps) {
    float values[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int key = lane + 32 * i;
      const float whole = scores[key * (kHeads + 1) + head] + scores[(kTile + key) * (kHeads + 1) + head];
      values[i] = key < count ? __fmul_rn(whole, scale) : -INFINITY;
    }
    const float tile_largest = warp_max(fmaxf(values[0], values[1]));
    const float before = first_tile ? -INFINITY : largest[head];
    const float now = fmaxf(before, tile_largest);
    float total = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float p = expf(values[i] - now);
      probabilities[head * kProbabilityStride + lane + 32 * i] = __float2bfloat16_rn(p);
      total += p;
    }
    total = warp_sum(total);
    if (lane == 0) {
      const float shrink = expf(before - now);
      factor[head] = shrink;
      sum[head] = first_tile ? total : __fmaf_rn(sum[head], shrink, total);
      largest[head] = now;
    }
    __syncwarp();
  }
}

/// sums[dims][heads] += values^T probabilities; a warp makes 64 of the 512 dimensions.
template <int kCols>
__device__ void add_values(uint32_t keys_address, const __nv_bfloat16* probabilities, const float* factor,
                           float (&sums)[4][kCols][4]) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int t = lane % 4;
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
    const float f0 = factor[j * 8 + 2 * t];
    const float f1 = factor[j * 8 + 2 * t + 1];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[i][j][0] *= f0;
      sums[i][j][1] *= f1;
      sums[i][j][2] *= f0;
      sums[i][j][3] *= f1;
    }
  }
  // Matrices in the order (keys 0-7, dims 0-7), (keys 0-7, dims 8-15), (keys 8-15, dims 0-7), (.., 8-15).
  const uint32_t lane_address =
      keys_address + ((lane % 8 + lane / 16 * 8) * kStride + warp * 8 + lane / 8 % 2) * 16;
#pragma unroll
  for (int step = 0; step < kTile / 16; ++step) {
    uint32_t b[kCols][2];
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
      const __nv_bfloat16* p = probabilities + (j * 8 + g) * kProbabilityStride + step * 16 + 2 * t;
      b[j][0] = *reinterpret_cast<const uint32_t*>(p);
      b[j][1] = *reinterpret_cast<const uint32_t*>(p + 8);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t v[4];
      load_matrices_turned(lane_address + step * 16 * kStride * 16 + i * 32, v);
#pragma unroll
      for (int j = 0; j < kCols; ++j) mma_bf16(sums[i][j], v[0], v[1], v[2], v[3], b[j][0], b[j][1]);
    }
  }
}

}  // namespace glint::ops::cuda
