// What the kernels of sample.cu share: weights, shares and arrivals as engine/row_scan.h defines them, to the
// bit.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "ops/cuda/sample.h"

namespace glint::ops::cuda {

constexpr float kNever = -INFINITY;
/// A smaller weight beside the largest, which is 1, could not be felt in a sum.
constexpr float kLeastWeight = 1e-30F;
constexpr uint64_t kShareOfOne = uint64_t{1} << 34;

/// exp(x) for x <= 0, rounded after every step as on the CPU: nothing here may fuse.
__device__ __forceinline__ float exp_of(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  x = x < -87.0F ? -87.0F : x;
  const float shifted = __fadd_rn(__fmul_rn(x, 1.44269504F), kRound);
  const float whole = __fsub_rn(shifted, kRound);
  float r = __fsub_rn(x, __fmul_rn(whole, 0.693359375F));
  r = __fadd_rn(r, __fmul_rn(whole, 2.12194440e-4F));
  float p = __fadd_rn(__fmul_rn(r, 0.00138145237F), 0.00836874686F);
  p = __fadd_rn(__fmul_rn(p, r), 0.0416683911F);
  p = __fadd_rn(__fmul_rn(p, r), 0.166665204F);
  p = __fadd_rn(__fmul_rn(p, r), 0.499999934F);
  p = __fadd_rn(__fadd_rn(__fmul_rn(p, __fmul_rn(r, r)), r), 1.0F);
  const int exponent = (__float_as_int(shifted) - 0x4B400000 + 127) << 23;
  return __fmul_rn(p, __int_as_float(exponent));
}

__device__ __forceinline__ uint64_t share_of(float weight) {
  return __double2ull_rn(static_cast<double>(weight) * 0x1p34);
}

__device__ __forceinline__ uint64_t mix(uint64_t z) {  // the splitmix64 finaliser
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

__device__ __forceinline__ uint64_t draw_key(uint64_t seed, int64_t position) {
  const uint64_t key = mix(seed + 0x9E3779B97F4A7C15ULL);
  return mix(key + (static_cast<uint64_t>(position) + 1) * 0x9E3779B97F4A7C15ULL);
}

/// The upper half of an id's random number in the race of `key`.
__device__ __forceinline__ uint32_t upper_hash(uint32_t id, uint64_t key) {
  uint32_t x = id * 0x9E3779B1U + static_cast<uint32_t>(key);
  x ^= x >> 16;
  x *= 0x7FEB352DU;
  x ^= x >> 15;
  x *= 0x846CA68BU;
  x ^= x >> 16;
  x += static_cast<uint32_t>(key >> 32);
  x ^= x >> 17;
  x *= 0xED5AD4BBU;
  x ^= x >> 11;
  x *= 0xAC4C1B51U;
  x ^= x >> 15;
  return x;
}

__device__ __forceinline__ double race_time(uint64_t key, int32_t id, uint32_t upper, float weight) {
  const auto lower =
      static_cast<uint32_t>(mix(key ^ (0x9E3779B97F4A7C15ULL * (static_cast<uint64_t>(id) + 1))));
  const double u = (static_cast<double>(upper) + (static_cast<double>(lower) + 0.5) * 0x1p-32) * 0x1p-32;
  return -log1p(-u) / static_cast<double>(weight);
}

/// One row of logits as its sequence wants it sampled.
struct SampledRow {
  const float* logits;
  const uint32_t* sampleable;
  int size;
  SampleParams params;
  uint64_t key;

  __device__ SampledRow(const SampleRows& rows, int64_t row)
      : logits(rows.logits.data + row * rows.logits.stride),
        sampleable(rows.sampleable),
        size(static_cast<int>(rows.logits.cols)),
        params(rows.params[row / rows.rows_each]),
        key(draw_key(params.seed, rows.generated[row / rows.rows_each] + rows.ahead + row % rows.rows_each)) {
  }

  [[nodiscard]] __device__ bool greedy() const { return params.temperature == 0.0F || params.top_k == 1; }
  [[nodiscard]] __device__ bool cuts() const {
    return !greedy() && (params.top_k > 1 || params.top_p < 1.0F);
  }
  [[nodiscard]] __device__ float logit(int id) const {
    return (sampleable[id / 32] >> id % 32 & 1U) != 0 ? logits[id] : kNever;
  }
  /// 0 for what is left out by min_p.
  [[nodiscard]] __device__ float weight(int id, float largest) const {
    const float value = exp_of(__fdiv_rn(__fsub_rn(logit(id), largest), params.temperature));
    return value >= fmaxf(params.min_p, kLeastWeight) ? value : 0.0F;
  }
};

}  // namespace glint::ops::cuda
