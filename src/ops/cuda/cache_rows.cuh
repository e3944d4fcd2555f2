// Where the rows of the paged cache lie, and their values: the device's side of ops/cpu/cache_rows.
#pragma once

#include "ops/cuda/device_math.cuh"
#include "ops/types.h"

namespace glint::ops::cuda {

constexpr int64_t kCacheTile = 128;  // latent values that share a scale

__device__ __forceinline__ std::byte* cache_row(const CacheLayer& cache, int64_t page, int64_t row) {
  return cache.base + page * cache.page_bytes + row * cache.row_bytes;
}

/// The page that holds `position` of the sequence that step row `row` belongs to.
__device__ __forceinline__ int32_t page_of(const RowMap& rows, int64_t row, int64_t position) {
  return rows.pages[rows.sequence[row] * rows.pages_stride + position / kPageTokens];
}

/// Where fp8_keys keeps the scale of a row.
__device__ __forceinline__ std::byte* key_scale(const CacheLayer& cache, int64_t page, int64_t row) {
  return cache_row(cache, page, kPageTokens) + row * 4;
}

/// Value `i` of a cache row, as the format defines it.
__device__ __forceinline__ float cache_value(const CacheLayer& cache, int64_t page, int64_t row, int64_t i) {
  const std::byte* source = cache_row(cache, page, row);
  switch (cache.format) {
    case CacheFormat::float32:
      return reinterpret_cast<const float*>(source)[i];
    case CacheFormat::bfloat16:
      return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(source)[i]);
    case CacheFormat::fp8_latent: {
      const std::byte* scales = source + cache.quantized;
      if (i < cache.quantized) {
        const float scale = reinterpret_cast<const float*>(scales)[i / kCacheTile];
        return __fmul_rn(e4m3_value(static_cast<uint8_t>(source[i])), scale);
      }
      const std::byte* others = scales + (cache.quantized + kCacheTile - 1) / kCacheTile * 4;
      return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(others)[i - cache.quantized]);
    }
    case CacheFormat::fp8_keys: {
      const float scale = *reinterpret_cast<const float*>(key_scale(cache, page, row));
      return __fmul_rn(e4m3_value(static_cast<uint8_t>(source[i])), scale);
    }
  }
  return 0.0F;
}

}  // namespace glint::ops::cuda
