#include <cfloat>

#include "ops/cuda/cache_rows.cuh"
#include "ops/cuda/cache_rows.h"
#include "ops/cuda/check.h"

namespace glint::ops::cuda {

namespace {

constexpr int kThreads = 128;

__device__ uint8_t e4m3_code(float value) {
  return static_cast<uint8_t>(e4m3_pair(value, 0.0F) & 0xFFU);
}

/// 2^ceil(log2(value)) of a positive normal value.
__device__ float power_of_two_above(float value) {
  const uint32_t bits = __float_as_uint(value);
  const uint32_t exponent = bits >> 23;
  return __uint_as_float(((bits & 0x7FFFFFU) == 0 ? exponent : exponent + 1) << 23);
}

template <class T>
__device__ float largest_magnitude(const T* x, int64_t count, float* shared) {
  float largest = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) largest = fmaxf(largest, fabsf(load_value(x + i)));
  return block_max<kThreads>(largest, shared);
}

template <class T>
__device__ void write_fp8_latent(const T* x, const CacheLayer& cache, std::byte* row, float* shared) {
  std::byte* scales = row + cache.quantized;
  const int64_t tiles = (cache.quantized + kCacheTile - 1) / kCacheTile;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t first = tile * kCacheTile;
    const int64_t count = min(kCacheTile, cache.quantized - first);
    const float scale = fmaxf(__fdiv_rn(largest_magnitude(x + first, count, shared), kE4m3Max), FLT_MIN);
    for (int64_t i = threadIdx.x; i < count; i += kThreads) {
      row[first + i] = static_cast<std::byte>(e4m3_code(__fdiv_rn(load_value(x + first + i), scale)));
    }
    if (threadIdx.x == 0) reinterpret_cast<float*>(scales)[tile] = scale;
  }
  auto* others = reinterpret_cast<__nv_bfloat16*>(scales + tiles * 4);
  for (int64_t i = cache.quantized + threadIdx.x; i < cache.width; i += kThreads) {
    others[i - cache.quantized] = __float2bfloat16_rn(load_value(x + i));
  }
}

template <class T>
__global__ void write_cache_kernel(const T* x, int64_t stride, RowMap rows, CacheLayer cache) {
  __shared__ float shared[kThreads / 32];
  const int64_t row = blockIdx.x;
  const T* values = x + row * stride;
  const int64_t position = rows.position[row];
  const int64_t page = page_of(rows, row, position);
  std::byte* target = cache_row(cache, page, position % kPageTokens);
  switch (cache.format) {
    case CacheFormat::float32:
      for (int64_t i = threadIdx.x; i < cache.width; i += kThreads) {
        reinterpret_cast<float*>(target)[i] = load_value(values + i);
      }
      break;
    case CacheFormat::bfloat16:
      for (int64_t i = threadIdx.x; i < cache.width; i += kThreads) {
        reinterpret_cast<__nv_bfloat16*>(target)[i] = __float2bfloat16_rn(load_value(values + i));
      }
      break;
    case CacheFormat::fp8_latent:
      write_fp8_latent(values, cache, target, shared);
      break;
    case CacheFormat::fp8_keys: {
      const float largest = fmaxf(largest_magnitude(values, cache.width, shared), 1e-4F);
      const float scale = power_of_two_above(__fdiv_rn(largest, kE4m3Max));
      for (int64_t i = threadIdx.x; i < cache.width; i += kThreads) {
        target[i] = static_cast<std::byte>(e4m3_code(__fdiv_rn(load_value(values + i), scale)));
      }
      if (threadIdx.x == 0) {
        *reinterpret_cast<float*>(key_scale(cache, page, position % kPageTokens)) = scale;
      }
      break;
    }
  }
}

}  // namespace

void write_cache(Activation x, const RowMap& rows, const CacheLayer& cache, ComputeDType dtype,
                 cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(x.rows);
  if (dtype == ComputeDType::bfloat16) {
    write_cache_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const __nv_bfloat16*>(x.data), x.stride,
                                                        rows, cache);
  } else {
    write_cache_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const float*>(x.data), x.stride, rows,
                                                        cache);
  }
  check(cudaGetLastError(), "launching write_cache");
}

}  // namespace glint::ops::cuda
