// Writing and reading rows of the paged cache in its formats.
#include "ops/cpu/cache_rows.h"

#include <cfloat>
#include <cmath>
#include <cstring>

#include "base/numeric.h"
#include "ops/cpu/cpu_ops_impl.h"

namespace glint::ops::cpu {

namespace {

constexpr int64_t kTile = 128;  // latent values that share a scale
constexpr float kE4m3Max = 448.0F;

float largest_magnitude(const float* x, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(x[i]));
  return largest;
}

void encode(const float* x, int64_t count, float scale, std::byte* codes) {
  for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<std::byte>(float_to_e4m3(x[i] / scale));
}

void store_scale(float scale, std::byte* target) {
  std::memcpy(target, &scale, sizeof scale);
}

/// 2^ceil(log2(value)) of a positive value, by its bits.
float power_of_two_above(float value) {
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);  // value = fraction * 2^exponent, fraction in [0.5, 1)
  return std::ldexp(1.0F, fraction == 0.5F ? exponent - 1 : exponent);
}

void write_fp8_latent(const float* x, const CacheLayer& cache, const Kernels& kernels, std::byte* row) {
  std::byte* scales = row + cache.quantized;
  const int64_t tiles = ceil_div(cache.quantized, kTile);
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t first = tile * kTile;
    const int64_t count = std::min(kTile, cache.quantized - first);
    const float scale = std::max(largest_magnitude(x + first, count) / kE4m3Max, FLT_MIN);
    encode(x + first, count, scale, row + first);
    store_scale(scale, scales + tile * 4);
  }
  kernels.float_to_bf16(x + cache.quantized, cache.width - cache.quantized,
                        reinterpret_cast<uint16_t*>(scales + tiles * 4));
}

void write_fp8_keys(const float* x, const CacheLayer& cache, int32_t page, int64_t row) {
  const float scale = power_of_two_above(std::max(largest_magnitude(x, cache.width), 1e-4F) / kE4m3Max);
  encode(x, cache.width, scale, cache_row(cache, page, row));
  store_scale(scale, key_scale(cache, page, row));
}

}  // namespace

void CpuOps::write_cache(Activation x, const RowMap& rows, const CacheLayer& cache) {
  if (arena_.measuring()) return;
  each_row(x.rows, x.cols, [&](int64_t row) {
    const int64_t position = rows.position[row];
    const int32_t page = page_of(rows, row, position);
    std::byte* target = cache_row(cache, page, position % kPageTokens);
    switch (cache.format) {
      case CacheFormat::float32:
        std::memcpy(target, row_of(x, row), static_cast<size_t>(x.cols) * 4);
        break;
      case CacheFormat::bfloat16:
        kernels_.float_to_bf16(row_of(x, row), x.cols, reinterpret_cast<uint16_t*>(target));
        break;
      case CacheFormat::fp8_latent:
        write_fp8_latent(row_of(x, row), cache, kernels_, target);
        break;
      case CacheFormat::fp8_keys:
        write_fp8_keys(row_of(x, row), cache, page, position % kPageTokens);
        break;
    }
  });
}

void CpuOps::widen_e4m3(const std::byte* codes, int64_t count, const std::byte* scales, float* out) const {
  // A row of codes with a scale for each 128 of them is a row of an FP8 weight.
  const Weight row{
      .format = WeightFormat::fp8_block, .rows = 1, .cols = count, .data = codes, .scale = scales};
  kernels_.decode_rows(row, 0, 1, out, count);
}

void CpuOps::widen_cache_row(const CacheLayer& cache, int32_t page, int64_t row, float* out) const {
  const std::byte* source = cache_row(cache, page, row);
  switch (cache.format) {
    case CacheFormat::float32:
      std::memcpy(out, source, static_cast<size_t>(cache.width) * 4);
      break;
    case CacheFormat::bfloat16:
      kernels_.bf16_to_float(reinterpret_cast<const uint16_t*>(source), cache.width, out);
      break;
    case CacheFormat::fp8_latent: {
      const std::byte* scales = source + cache.quantized;
      widen_e4m3(source, cache.quantized, scales, out);
      kernels_.bf16_to_float(reinterpret_cast<const uint16_t*>(scales + ceil_div(cache.quantized, kTile) * 4),
                             cache.width - cache.quantized, out + cache.quantized);
      break;
    }
    case CacheFormat::fp8_keys:
      for (int64_t first = 0; first < cache.width; first += kTile) {
        widen_e4m3(source + first, std::min(kTile, cache.width - first), key_scale(cache, page, row),
                   out + first);
      }
      break;
  }
}

}  // namespace glint::ops::cpu
