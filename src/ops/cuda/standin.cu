#include "ops/cuda/check.h"
#include "ops/cuda/device_math.cuh"
#include "ops/cuda/standin.h"

namespace glint::ops::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlocksMax = int64_t{1} << 16;
constexpr float kE2m1Max = 6.0F;
constexpr uint64_t kStep = 0x9E3779B97F4A7C15ULL;  // splitmix64's increment

__device__ __forceinline__ float standin_value(const StandinRule& rule, int64_t index) {
  uint64_t z = rule.key + static_cast<uint64_t>(index + 1) * kStep;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z ^= z >> 31;
  const double bits = __ll2double_rn(static_cast<long long>(z >> 11));
  const double uniform = __dadd_rn(__dmul_rn(bits, 0x1p-52), -1.0);
  const float value = __double2float_rn(__dadd_rn(rule.base, __dmul_rn(rule.spread, uniform)));
  return __bfloat162float(__float2bfloat16_rn(value));
}

__global__ void bf16_kernel(StandinRule rule, __nv_bfloat16* out, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    out[i] = __float2bfloat16_rn(standin_value(rule, i));
  }
}

/// A block of threads makes one block of 128 x 128 values: they stay in registers between the search for the
/// largest and the encoding. Eight threads share a row.
constexpr int kPerThread = 16;  // of one row
constexpr int kRowsAtOnce = kThreads / 8;
constexpr int kRounds = 128 / kRowsAtOnce;

__global__ void __launch_bounds__(kThreads) fp8_kernel(StandinRule rule, Weight to) {
  __shared__ float shared[kThreads / 32];
  const int64_t row = static_cast<int64_t>(blockIdx.y) * kScaleBlock + threadIdx.x / 8;
  const int64_t col = static_cast<int64_t>(blockIdx.x) * kScaleBlock + threadIdx.x % 8 * kPerThread;
  float values[kRounds][kPerThread];
  float largest = 0;
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int64_t r = row + round * kRowsAtOnce;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const bool inside = r < to.rows && col + i < to.cols;
      values[round][i] = inside ? standin_value(rule, r * to.cols + col + i) : 0.0F;
      largest = fmaxf(largest, fabsf(values[round][i]));
    }
  }
  largest = block_max<kThreads>(largest, shared);
  const float scale = largest > 0 ? __fdiv_rn(largest, kE4m3Max) : 1.0F;
  if (threadIdx.x == 0) {
    static_cast<float*>(
        const_cast<void*>(to.scale))[static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x] = scale;
  }
  auto* const codes = static_cast<uint8_t*>(const_cast<void*>(to.data));
  const bool whole = to.cols % kPerThread == 0 && col + kPerThread <= to.cols;
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int64_t r = row + round * kRowsAtOnce;
    if (r >= to.rows) continue;
    uint32_t words[kPerThread / 4];
#pragma unroll
    for (int i = 0; i < kPerThread; i += 4) {
      const float* const v = values[round] + i;
      words[i / 4] = e4m3_pair(__fdiv_rn(v[0], scale), __fdiv_rn(v[1], scale)) |
                     static_cast<uint32_t>(e4m3_pair(__fdiv_rn(v[2], scale), __fdiv_rn(v[3], scale))) << 16;
    }
    uint8_t* const out = codes + r * to.cols + col;
    if (whole) {
      *reinterpret_cast<uint4*>(out) = make_uint4(words[0], words[1], words[2], words[3]);
    } else {
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        if (col + i < to.cols) out[i] = static_cast<uint8_t>(words[i / 4] >> (8 * (i % 4)));
      }
    }
  }
}

/// The bounds between neighbouring E2M1 values; a tie on a bound goes to the even code.
__device__ __forceinline__ uint32_t e2m1_code(float value) {
  const float a = fabsf(value);
  const uint32_t code = static_cast<uint32_t>(a > 0.25F) + static_cast<uint32_t>(a >= 0.75F) +
                        static_cast<uint32_t>(a > 1.25F) + static_cast<uint32_t>(a >= 1.75F) +
                        static_cast<uint32_t>(a > 2.5F) + static_cast<uint32_t>(a >= 3.5F) +
                        static_cast<uint32_t>(a > 5.0F);
  return code | (value < 0 ? 8U : 0U);
}

__global__ void nvfp4_kernel(StandinRule rule, Weight to, int64_t groups) {
  auto* const packed = static_cast<uint64_t*>(const_cast<void*>(to.data));
  const float divisor = __fmul_rn(kE2m1Max, to.global_scale);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t group = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; group < groups;
       group += stride) {
    float values[kFp4Group];
    float largest = 0;
#pragma unroll
    for (int i = 0; i < kFp4Group; ++i) {
      values[i] = standin_value(rule, group * kFp4Group + i);
      largest = fmaxf(largest, fabsf(values[i]));
    }
    float raw = __fdiv_rn(largest, divisor);
    if (raw == 0) raw = 1.0F;
    const auto scale = static_cast<uint8_t>(e4m3_pair(fminf(fmaxf(raw, 0x1p-9F), kE4m3Max), 0.0F));
    const_cast<uint8_t*>(to.block_scale)[group] = scale;
    const float step = __fmul_rn(e4m3_value(scale), to.global_scale);
    uint64_t codes = 0;
#pragma unroll
    for (int i = 0; i < kFp4Group; ++i) {
      codes |= static_cast<uint64_t>(e2m1_code(__fdiv_rn(values[i], step))) << (4 * i);
    }
    packed[group] = codes;
  }
}

__global__ void largest_kernel(StandinRule rule, int64_t count, float* amax) {
  __shared__ float shared[kThreads / 32];
  float largest = 0;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    largest = fmaxf(largest, fabsf(standin_value(rule, i)));
  }
  largest = block_max<kThreads>(largest, shared);
  // Finite magnitudes are ordered as their bits are.
  if (threadIdx.x == 0) atomicMax(reinterpret_cast<int*>(amax), __float_as_int(largest));
}

unsigned blocks_for(int64_t items) {
  const int64_t blocks = (items + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax);
}

}  // namespace

void make_standin(const StandinRule& rule, const Weight& to, cudaStream_t stream) {
  const int64_t count = to.rows * to.cols;
  if (count == 0) return;
  switch (to.format) {
    case WeightFormat::bf16:
      bf16_kernel<<<blocks_for(count), kThreads, 0, stream>>>(
          rule, static_cast<__nv_bfloat16*>(const_cast<void*>(to.data)), count);
      break;
    case WeightFormat::fp8_block: {
      const dim3 grid(static_cast<unsigned>((to.cols + kScaleBlock - 1) / kScaleBlock),
                      static_cast<unsigned>((to.rows + kScaleBlock - 1) / kScaleBlock));
      fp8_kernel<<<grid, kThreads, 0, stream>>>(rule, to);
      break;
    }
    case WeightFormat::nvfp4:
      nvfp4_kernel<<<blocks_for(count / kFp4Group), kThreads, 0, stream>>>(rule, to, count / kFp4Group);
      break;
    case WeightFormat::f32:
      fail(ErrorKind::internal, "make_standin: no checkpoint stores float32 matrices");
  }
  check(cudaGetLastError(), "launching make_standin");
}

void largest_standin(const StandinRule& rule, int64_t count, float* amax, cudaStream_t stream) {
  constexpr int64_t kBlocks = 1024;
  const int64_t blocks = static_cast<int64_t>(blocks_for(count));
  largest_kernel<<<static_cast<unsigned>(blocks < kBlocks ? blocks : kBlocks), kThreads, 0, stream>>>(
      rule, count, amax);
  check(cudaGetLastError(), "launching largest_standin");
}

}  // namespace glint::ops::cuda
