// From the sums of a warpgroup to y, without shared memory: it holds the tiles that come next.
#pragma once

#include "ops/cuda/hopper_shape.cuh"

namespace glint::ops::cuda::hopper {

/// Four words of each of the four threads of a row, turned: thread t gets word t of all four.
__device__ __forceinline__ uint4 turned(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  const bool odd = threadIdx.x % 2 == 1;
  const bool upper = threadIdx.x % 4 >= 2;
  const auto exchange = [](uint32_t& low, uint32_t& high, bool second, int distance) {
    const uint32_t got = __shfl_xor_sync(0xFFFFFFFFU, second ? low : high, distance);
    (second ? low : high) = got;
  };
  exchange(a, b, odd, 1);
  exchange(c, d, odd, 1);
  exchange(a, c, upper, 2);
  exchange(b, d, upper, 2);
  return {a, b, c, d};
}

/// Writes 128 columns of a thread's two rows. `whole`: all of them exist, and vectors are aligned.
template <bool kWhole>
__device__ __forceinline__ void write_floats(float* y, const float (&totals)[64], int half, int64_t left) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    const int col = j * 8 + t * 2;
    const float2 values = make_float2(totals[4 * j + 2 * half], totals[4 * j + 2 * half + 1]);
    if constexpr (kWhole) {
      *reinterpret_cast<float2*>(y + col) = values;
    } else {
      if (col < left) y[col] = values.x;
      if (col + 1 < left) y[col + 1] = values.y;
    }
  }
}
template <bool kWhole>
__device__ __forceinline__ void write_bf16(__nv_bfloat16* y, const float (&totals)[64], int half,
                                           int64_t left) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int group = 0; group < 4; ++group) {
    uint32_t words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = 4 * (4 * group + j) + 2 * half;
      words[j] = bf16_pair(totals[i], totals[i + 1]);
    }
    const uint4 values = turned(words[0], words[1], words[2], words[3]);
    const int col = group * 32 + t * 8;
    if constexpr (kWhole) {
      if (left > 0) *reinterpret_cast<uint4*>(y + col) = values;
    } else {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const uint32_t pair = word(values, e / 2);
        const auto bits = static_cast<uint16_t>(e % 2 == 0 ? pair & 0xFFFFU : pair >> 16);
        if (col + e < left) y[col + e] = __ushort_as_bfloat16(bits);
      }
    }
  }
}
template <class S>
__device__ __forceinline__ void write_part(const Matmul& p, const Tile& tile, const float (&totals)[64],
                                           int row_near, int64_t col0, int64_t out_cols) {
  const bool whole = col0 + kPart <= out_cols && p.y_stride % 8 == 0 && p.y_batch % 8 == 0 &&
                     reinterpret_cast<uintptr_t>(p.y) % 16 == 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row_near + half * 8;
    const int64_t left = row < tile.count ? out_cols - col0 : 0;  // columns to write
    const int64_t at = (tile.first + row) * p.y_stride + tile.z * p.y_batch + col0;
    if (p.y_is_float) {
      auto* y = static_cast<float*>(p.y) + at;
      if (!whole) {
        write_floats<false>(y, totals, half, left);
      } else if (left > 0) {
        write_floats<true>(y, totals, half, left);
      }
    } else {
      auto* y = static_cast<__nv_bfloat16*>(p.y) + at;
      if (whole) {
        write_bf16<true>(y, totals, half, left);
      } else {
        write_bf16<false>(y, totals, half, left);
      }
    }
  }
}

}  // namespace glint::ops::cuda::hopper
