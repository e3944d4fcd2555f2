// Number formats, small reductions and tensor-core instructions for the kernels of this folder.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "tensor/weight.h"

namespace glint::ops::cuda {

constexpr int64_t kScaleBlock = 128;  // rows and columns of an FP8 weight that share a scale
constexpr int64_t kFp4Group = 16;     // columns of an NVFP4 weight that share a scale
constexpr float kE4m3Max = 448.0F;

/// E4M3 to float32, all 256 codes. The seven exponent and mantissa bits, moved to a float's place, are the
/// value times 2^-120, subnormals included; the product is exact.
__device__ __forceinline__ float e4m3_value(uint8_t code) {
  const uint32_t magnitude = code & 0x7FU;
  const float value = magnitude == 0x7FU ? __uint_as_float(0x7FC00000U)
                                         : __fmul_rn(__uint_as_float(magnitude << 20), 0x1p120F);
  return (code & 0x80U) != 0 ? -value : value;
}

__device__ __forceinline__ float e2m1_value(uint32_t code) {
  // The three magnitude bits, moved to a float's place, are the value times 2^-126.
  const float value = __fmul_rn(__uint_as_float((code & 7U) << 22), 0x1p126F);
  return (code & 8U) != 0 ? -value : value;
}

/// The value of W[row][col] as Weight defines it.
__device__ __forceinline__ float weight_value(const Weight& w, int64_t row, int64_t col) {
  const int64_t index = row * w.cols + col;
  switch (w.format) {
    case WeightFormat::f32:
      return static_cast<const float*>(w.data)[index];
    case WeightFormat::bf16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(w.data)[index]);
    case WeightFormat::fp8_block: {
      const int64_t blocks = (w.cols + kScaleBlock - 1) / kScaleBlock;
      const float scale = static_cast<const float*>(w.scale)[row / kScaleBlock * blocks + col / kScaleBlock];
      return __fmul_rn(e4m3_value(static_cast<const uint8_t*>(w.data)[index]), scale);
    }
    case WeightFormat::nvfp4: {
      const uint32_t pair = static_cast<const uint8_t*>(w.data)[index / 2];
      const float block = e4m3_value(w.block_scale[row * (w.cols / kFp4Group) + col / kFp4Group]);
      const float scale =
          w.global_divides ? __fdiv_rn(block, w.global_scale) : __fmul_rn(block, w.global_scale);
      return __fmul_rn(e2m1_value(col % 2 == 0 ? pair & 15U : pair >> 4), scale);
    }
  }
  return 0.0F;
}

/// An Activation's element: __nv_bfloat16 or float.
template <class T>
__device__ __forceinline__ float load_value(const T* address) {
  if constexpr (sizeof(T) == 2) {
    return __bfloat162float(*address);
  } else {
    return *address;
  }
}
template <class T>
__device__ __forceinline__ T as_element(float value) {
  if constexpr (sizeof(T) == 2) {
    return __float2bfloat16_rn(value);
  } else {
    return value;
  }
}

/// Two floats to two E4M3 codes, `low` in the low byte: nearest, ties to even, saturating.
__device__ __forceinline__ uint16_t e4m3_pair(float low, float high) {
  uint16_t codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  return codes;
}

/// Two E4M3 codes to two float16, exactly.
__device__ __forceinline__ uint32_t half_pair_of_e4m3(uint16_t codes) {
  uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(codes));
  return halves;
}

/// Four E4M3 codes to two pairs of float16.
__device__ __forceinline__ void half_pairs_of_e4m3(uint32_t codes, uint32_t& low, uint32_t& high) {
  asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\ncvt.rn.f16x2.e4m3x2 %0, l;\ncvt.rn.f16x2.e4m3x2 %1, h;\n}"
      : "=r"(low), "=r"(high)
      : "r"(codes));
}

__device__ __forceinline__ uint32_t multiply_bf16_pair(uint32_t a, uint32_t b) {
  const __nv_bfloat162 product =
      __hmul2(*reinterpret_cast<__nv_bfloat162*>(&a), *reinterpret_cast<__nv_bfloat162*>(&b));
  return *reinterpret_cast<const uint32_t*>(&product);
}

__device__ __forceinline__ uint32_t bf16_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

/// The bits of a where `mask` is set, else b's: one instruction, which the compiler does not always see.
__device__ __forceinline__ uint32_t choose_bits(uint32_t a, uint32_t b, uint32_t mask) {
  uint32_t bits;
  asm("lop3.b32 %0, %1, %2, %3, 0xE4;" : "=r"(bits) : "r"(a), "r"(b), "r"(mask));
  return bits;
}

template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, step);
  return value;
}
__device__ __forceinline__ float warp_max(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, step));
  return value;
}

/// Sum over a block of `kThreads` threads in a fixed order, for every thread. `shared`: kThreads / 32 floats.
template <int kThreads>
__device__ __forceinline__ float block_sum(float value, float* shared) {
  value = warp_sum(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < kThreads / 32; ++w) sum += shared[w];
  return sum;
}
template <int kThreads>
__device__ __forceinline__ float block_max(float value, float* shared) {
  value = warp_max(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float largest = shared[0];
  for (int w = 1; w < kThreads / 32; ++w) largest = fmaxf(largest, shared[w]);
  return largest;
}

/// c += a b of one 16 x 16 and one 16 x 8 fragment.
__device__ __forceinline__ void mma_bf16(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                         uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma_f16(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                        uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/// Copies 16 bytes to shared memory asynchronously; zeros if not `valid`.
__device__ __forceinline__ void copy_async(uint32_t shared, const void* global, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes));
}
/// The same through the first-level cache, for what other blocks of the multiprocessor read too.
__device__ __forceinline__ void copy_async_near(uint32_t shared, const void* global, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes));
}
__device__ __forceinline__ void copy_async_word(uint32_t shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(global));
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;");
}
template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft));
}

}  // namespace glint::ops::cuda
