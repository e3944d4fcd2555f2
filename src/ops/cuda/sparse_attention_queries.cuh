// A row's queries on their way from memory into shared memory.
#pragma once

#include "ops/cuda/sparse_attention_tiles.cuh"

namespace glint::ops::cuda {

/// The queries of a row that a thread brings into shared memory, on their way.
template <int kCols>
struct RawQueries {
  uint4 units[kCols][3];  // of head warp + 8 j: units lane, lane + 32 and lane + 64
};

/// Zeros for heads that are none.
template <int kCols>
__device__ __forceinline__ void load_queries(const __nv_bfloat16* q, int live_heads, RawQueries<kCols>& raw) {
  constexpr int kUnits = kWidth * 2 / 16;
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
    const int head = static_cast<int>(threadIdx.x / 32) + j * kWarps;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const int unit = static_cast<int>(threadIdx.x % 32) + 32 * i;
      raw.units[j][i] = head < live_heads && unit < kUnits
                            ? reinterpret_cast<const uint4*>(q + static_cast<int64_t>(head) * kWidth)[unit]
                            : uint4{};
    }
  }
}

/// The power of two that brings the largest of a head's latent values to [2^14, 2^15), as far as there is
/// one.
__device__ __forceinline__ float query_factor(const uint4 (&units)[3]) {
  float largest = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&units[i]);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 pair = __bfloat1622float2(pairs[k]);
      largest = fmaxf(largest, fmaxf(fabsf(pair.x), fabsf(pair.y)));
    }
  }
  const uint32_t exponent = __float_as_uint(largest_of_warp(largest)) >> 23;
  return __uint_as_float(min(268U - exponent, 253U) << 23);
}

/// Into shared memory. For FP8 rows the latent values become float16 times query_factor(), whose inverse goes
/// to `inverse`, and stand in the order in which score_tile() meets the codes.
template <int kCols, bool kFp8>
__device__ __forceinline__ void store_queries(const RawQueries<kCols>& raw, std::byte* query,
                                              float* inverse) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
    const int head = static_cast<int>(threadIdx.x / 32) + j * kWarps;
    std::byte* target = query + head * kQueryStride;
    if (lane < 8) reinterpret_cast<uint4*>(target)[64 + lane] = raw.units[j][2];
    if constexpr (!kFp8) {
      reinterpret_cast<uint4*>(target)[lane] = raw.units[j][0];
      reinterpret_cast<uint4*>(target)[lane + 32] = raw.units[j][1];
      continue;
    }
    const float up = query_factor(raw.units[j]);
    if (lane == 0) inverse[head] = 1 / up;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&raw.units[j][i]);
      uint32_t halves[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float2 pair = __bfloat1622float2(pairs[k]);
        const __half2 half = __floats2half2_rn(pair.x * up, pair.y * up);
        halves[k] = *reinterpret_cast<const uint32_t*>(&half);
      }
      // Of 16 values, as pairs: 0, 2, 4, 6, then 1, 3, 5, 7.
      const int unit = lane + 32 * i;
      std::byte* place = target + unit / 2 * 32 + unit % 2 * 8;
      *reinterpret_cast<uint2*>(place) = {halves[0], halves[2]};
      *reinterpret_cast<uint2*>(place + 16) = {halves[1], halves[3]};
    }
  }
}

}  // namespace glint::ops::cuda
