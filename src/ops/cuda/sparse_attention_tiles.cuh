// One tile of the sparse attention: 64 gathered rows in shared memory are scored, softened and summed. Keys
// are the instruction's 16 rows, heads its 8 columns, so that 8 heads need no padding.
//
// FP8 rows stay as they are in shared memory and become float16 between there and the tensor cores, which is
// exact. Their scales go into what they meet: into the sums of a key's score, and into the probabilities. So
// that float16 holds both operands, a head's query is multiplied by a power of two, and probabilities times
// scales are taken relative to the largest scale.
#pragma once

#include "ops/cuda/cache_rows.cuh"

namespace glint::ops::cuda {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kLatent = 512;
constexpr int kRope = 64;
constexpr int kWidth = kLatent + kRope;
constexpr int kBlocks = kLatent / static_cast<int>(kCacheTile);  // of a row of FP8, with a scale each
constexpr int kTile = 64;                                        // positions
constexpr int kHalfTile = kTile / 2;                             // what is gathered at once
constexpr int kTilesPerGroup = 2;
constexpr int kGroup = kTile * kTilesPerGroup;
constexpr int kHeadsMax = 32;
// Strides of shared memory. An odd number of 16-byte units lays eight rows into different banks.
constexpr int kQueryStride = kWidth * 2 + 16;  // bytes
constexpr int kScoreStride = kTile + 4;        // floats
constexpr int kProbabilityStride = kTile + 8;  // of 2 bytes
constexpr float kProbabilityUp = 4096;         // into the middle of float16's range
constexpr uint32_t kExponent = 0x7F800000;     // of a float's bits

template <bool kFp8>
struct RowForm {
  static constexpr int kBytes = kFp8 ? kLatent + kBlocks * 4 + kRope * 2 : kWidth * 2;
  static constexpr int kStride = kFp8 ? kBytes : kBytes + 16;
  static constexpr int kScaleBlocks = kFp8 ? kBlocks : 1;  // parts of a row with probabilities of their own
  static_assert(kStride / 16 % 2 == 1);
};

/// Where a tile's rows lie in shared memory: 32 and 32.
struct TileRows {
  const std::byte* low;
  const std::byte* high;

  template <bool kFp8>
  __device__ __forceinline__ const std::byte* row(int key) const {
    return (key < kHalfTile ? low : high) + key % kHalfTile * RowForm<kFp8>::kStride;
  }
};

/// What the tiles of a group hand on, by head.
struct Softmax {
  float* scores;            // [2][heads][kScoreStride]: of either half of the width
  uint16_t* probabilities;  // [scale blocks][heads][kProbabilityStride]: bfloat16, or float16 for FP8 rows
  float* factor;            // [scale blocks][heads]: for what was summed before
  float* scale_largest;     // [heads][kBlocks], for FP8 rows
  float2* ends;             // [heads]: largest score and sum so far
};

__device__ __forceinline__ uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}
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
/// Four E4M3 codes to four float16, exactly.
__device__ __forceinline__ void widen_codes(uint32_t codes, uint32_t& low, uint32_t& high) {
  asm("{\n"
      ".reg .b16 l, h;\n"
      "mov.b32 {l, h}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, l;\n"
      "cvt.rn.f16x2.e4m3x2 %1, h;\n"
      "}"
      : "=r"(low), "=r"(high)
      : "r"(codes));
}
/// As warp_max(), in one instruction; NaN comes through.
__device__ __forceinline__ float largest_of_warp(float value) {
  const auto turned = [](int bits) { return bits ^ (bits >> 31 & 0x7FFFFFFF); };
  return __int_as_float(turned(__reduce_max_sync(0xFFFFFFFFU, turned(__float_as_int(value)))));
}

/// sums += 32 values of 16 keys times those of the heads; both addresses are the lane's own.
template <int kCols, bool kFp8>
__device__ __forceinline__ void score_step(uint32_t keys, uint32_t query, float (&sums)[kCols][4]) {
  uint32_t near[4];
  uint32_t far[4];
  if constexpr (kFp8) {
    uint32_t codes[4];
    load_matrices(keys, codes);
    widen_codes(codes[0], near[0], near[2]);
    widen_codes(codes[1], near[1], near[3]);
    widen_codes(codes[2], far[0], far[2]);
    widen_codes(codes[3], far[1], far[3]);
  } else {
    load_matrices(keys, near);
    load_matrices(keys + 32, far);
  }
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
    uint32_t b[4];
    load_matrices(query + j * 8 * kQueryStride, b);
    if constexpr (kFp8) {
      mma_f16(sums[j], near[0], near[1], near[2], near[3], b[0], b[1]);
      mma_f16(sums[j], far[0], far[1], far[2], far[3], b[2], b[3]);
    } else {
      mma_bf16(sums[j], near[0], near[1], near[2], near[3], b[0], b[1]);
      mma_bf16(sums[j], far[0], far[1], far[2], far[3], b[2], b[3]);
    }
  }
}

/// The tile's scores: the warps share it by 16 keys and by halves of the width.
template <int kCols, bool kFp8>
__device__ void score_tile(const TileRows& keys, uint32_t query_address, const float* inverse,
                           const Softmax& softmax) {
  using Form = RowForm<kFp8>;
  constexpr int kHeads = kCols * 8;
  constexpr int kStepBytes = kFp8 ? 32 : 64;  // of a row, for 32 values
  constexpr int kSteps = kLatent / 2 / 32;    // of the half's latent values
  constexpr int kRopeAt = kFp8 ? Form::kBytes - kRope * 2 : kLatent * 2;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int key0 = warp % 4 * 16;
  const int half = warp / 4;
  const uint32_t key_lane = shared_address(keys.row<kFp8>(key0)) +
                            static_cast<uint32_t>(lane % 16 * Form::kStride + lane / 16 * 16);
  const uint32_t query_lane = query_address + static_cast<uint32_t>(lane % 8 * kQueryStride + lane / 8 * 16);
  // Either quarter of the width for itself: those of FP8 have scales of their own, and two chains of
  // instructions run side by side.
  float quarter[2][kCols][4] = {};
  float rope[kCols][4] = {};
#pragma unroll
  for (int step = 0; step < kSteps / 2; ++step) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int at = half * kSteps + k * kSteps / 2 + step;
      score_step<kCols, kFp8>(key_lane + at * kStepBytes, query_lane + at * 64, quarter[k]);
    }
  }
  score_step<kCols, false>(key_lane + kRopeAt + half * 64, query_lane + kLatent * 2 + half * 64, rope);
  const int g = lane / 4;
  const int t = lane % 4;
  float2 scales[2] = {{1, 1}, {1, 1}};
  if constexpr (kFp8) {
    const std::byte* row = keys.row<kFp8>(key0 + g) + kLatent + half * 8;
    scales[0] = *reinterpret_cast<const float2*>(row);
    scales[1] = *reinterpret_cast<const float2*>(row + 8 * Form::kStride);
  }
  float* target = softmax.scores + half * kHeads * kScoreStride + key0 + g;
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int head = j * 8 + 2 * t + e % 2;
      float sum = quarter[0][j][e] + quarter[1][j][e];
      if constexpr (kFp8) {
        const float2 scale = scales[e / 2];
        sum = __fmul_rn(__fmaf_rn(quarter[1][j][e], scale.y, __fmul_rn(quarter[0][j][e], scale.x)),
                        inverse[head]);
      }
      target[head * kScoreStride + e / 2 * 8] = sum + rope[j][e];
    }
  }
}

/// Probabilities times scales, relative to the power of two of the largest scale so far, of the two keys of a
/// lane.
template <int kHeads>
__device__ __forceinline__ void scale_probabilities(const TileRows& keys, int head, bool first_tile,
                                                    float shrink, const float (&p)[2],
                                                    const Softmax& softmax) {
  constexpr int kStride = RowForm<true>::kStride;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::byte* row = keys.row<true>(2 * lane) + kLatent;
  const float4 low = *reinterpret_cast<const float4*>(row);
  const float4 high = *reinterpret_cast<const float4*>(row + kStride);
  const float2 scales[kBlocks] = {{low.x, high.x}, {low.y, high.y}, {low.z, high.z}, {low.w, high.w}};
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    // Scales are positive: their bits have their order.
    const uint32_t tile_largest =
        __reduce_max_sync(0xFFFFFFFFU, __float_as_uint(fmaxf(scales[b].x, scales[b].y)));
    float* largest = softmax.scale_largest + head * kBlocks + b;
    const float before = first_tile ? 0.0F : *largest;
    const float now = fmaxf(before, __uint_as_float(tile_largest & kExponent));
    const float inverse = __uint_as_float(2 * 127U * (1U << 23) - __float_as_uint(now));
    const __half2 pair = __floats2half2_rn(p[0] * (scales[b].x * inverse) * kProbabilityUp,
                                           p[1] * (scales[b].y * inverse) * kProbabilityUp);
    *reinterpret_cast<__half2*>(softmax.probabilities + (b * kHeads + head) * kProbabilityStride + 2 * lane) =
        pair;
    __syncwarp();
    if (lane == 0) {
      *largest = now;
      softmax.factor[b * kHeads + head] = shrink * (before * inverse);
    }
  }
}

/// Running softmax of the heads over the tiles of a group: probabilities of the tile's first `count` keys
/// (zero for the others), the factor for what was summed before.
template <int kCols, bool kFp8>
__device__ void soften_tile(const TileRows& keys, float scale, int count, bool first_tile,
                            const Softmax& softmax) {
  constexpr int kHeads = kCols * 8;
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int head = static_cast<int>(threadIdx.x / 32); head < kHeads; head += kWarps) {
    const float* scores = softmax.scores + head * kScoreStride + 2 * lane;
    const float2 one = *reinterpret_cast<const float2*>(scores);
    const float2 other = *reinterpret_cast<const float2*>(scores + kHeads * kScoreStride);
    const float values[2] = {2 * lane < count ? __fmul_rn(one.x + other.x, scale) : -INFINITY,
                             2 * lane + 1 < count ? __fmul_rn(one.y + other.y, scale) : -INFINITY};
    const float2 before = first_tile ? float2{-INFINITY, 0} : softmax.ends[head];
    const float now = fmaxf(before.x, largest_of_warp(fmaxf(values[0], values[1])));
    const float p[2] = {expf(values[0] - now), expf(values[1] - now)};
    const float total = warp_sum(p[0] + p[1]);
    const float shrink = expf(before.x - now);
    if constexpr (kFp8) {
      scale_probabilities<kHeads>(keys, head, first_tile, shrink, p, softmax);
    } else {
      *reinterpret_cast<uint32_t*>(softmax.probabilities + head * kProbabilityStride + 2 * lane) =
          bf16_pair(p[0], p[1]);
      if (lane == 0) softmax.factor[head] = shrink;
    }
    __syncwarp();
    if (lane == 0) softmax.ends[head] = {now, __fmaf_rn(before.y, shrink, total)};
  }
}

template <int kCols>
__device__ __forceinline__ void clear_sums(float (&sums)[4][kCols][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < kCols; ++j) sums[i][j][0] = sums[i][j][1] = sums[i][j][2] = sums[i][j][3] = 0;
  }
}

/// Which of the 512 values element e of part `part` of a warp's sums is.
template <bool kFp8>
__device__ __forceinline__ int value_of(int part, int e) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int g = static_cast<int>(threadIdx.x % 32 / 4);
  return warp * 64 + (kFp8 ? part / 2 * 32 + e / 2 * 16 + 2 * g + part % 2 : part * 16 + e / 2 * 8 + g);
}

/// sums += values^T probabilities; a warp makes 64 of the 512 values, in four parts.
template <int kCols, bool kFp8>
__device__ void add_values(const TileRows& keys, const Softmax& softmax, float (&sums)[4][kCols][4]) {
  using Form = RowForm<kFp8>;
  constexpr int kHeads = kCols * 8;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int g = lane / 4;
  const int t = lane % 4;
  const int block = kFp8 ? warp / 2 : 0;
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
    const float2 factor = *reinterpret_cast<const float2*>(softmax.factor + block * kHeads + j * 8 + 2 * t);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[i][j][0] *= factor.x;
      sums[i][j][1] *= factor.y;
      sums[i][j][2] *= factor.x;
      sums[i][j][3] *= factor.y;
    }
  }
  const uint16_t* probabilities = softmax.probabilities + block * kHeads * kProbabilityStride;
  // Matrices in the order (keys 0-7, first 16 bytes), (keys 0-7, next 16), (keys 8-15, first 16), (.., next).
  const auto lane_offset = static_cast<uint32_t>((lane % 8 + lane / 16 * 8) * Form::kStride +
                                                 warp * (kFp8 ? 64 : 128) + lane / 8 % 2 * 16);
#pragma unroll
  for (int step = 0; step < kTile / 16; ++step) {
    uint32_t b[kCols][2];
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
      const uint16_t* p = probabilities + (j * 8 + g) * kProbabilityStride + step * 16 + 2 * t;
      b[j][0] = *reinterpret_cast<const uint32_t*>(p);
      b[j][1] = *reinterpret_cast<const uint32_t*>(p + 8);
    }
#pragma unroll
    for (int i = 0; i < (kFp8 ? 2 : 4); ++i) {
      uint32_t v[4];
      load_matrices_turned(shared_address(keys.row<kFp8>(step * 16)) + lane_offset + i * 32, v);
      if constexpr (kFp8) {
        // A register holds two values of two keys; the instruction wants a value of two keys.
        uint32_t even[4];
        uint32_t odd[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          widen_codes(__byte_perm(v[k], 0, 0x3120), even[k], odd[k]);
        }
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
          mma_f16(sums[2 * i][j], even[0], even[1], even[2], even[3], b[j][0], b[j][1]);
          mma_f16(sums[2 * i + 1][j], odd[0], odd[1], odd[2], odd[3], b[j][0], b[j][1]);
        }
      } else {
#pragma unroll
        for (int j = 0; j < kCols; ++j) mma_bf16(sums[i][j], v[0], v[1], v[2], v[3], b[j][0], b[j][1]);
      }
    }
  }
}

/// At the end of a group: sums of FP8 rows get their scales.
template <int kCols, bool kFp8>
__device__ __forceinline__ void finish_sums(const Softmax& softmax, float (&sums)[4][kCols][4]) {
  if constexpr (kFp8) {
    const int block = static_cast<int>(threadIdx.x / 64);
    const int t = static_cast<int>(threadIdx.x % 4);
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float scale =
            softmax.scale_largest[(j * 8 + 2 * t + e % 2) * kBlocks + block] * (1 / kProbabilityUp);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i][j][e] = __fmul_rn(sums[i][j][e], scale);
      }
    }
  }
}

}  // namespace glint::ops::cuda
