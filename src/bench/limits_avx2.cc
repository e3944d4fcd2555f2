// The limits of AVX2.
#include <immintrin.h>

#include "bench/limits_isa.h"

namespace glint::bench {

namespace {

uint64_t read_all(const void* data, int64_t bytes) {
  const auto* at = static_cast<const __m256i_u*>(data);
  __m256i sum[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                    _mm256_setzero_si256()};
  for (int64_t i = 0; i < bytes / 32; i += 4) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[j] = _mm256_xor_si256(sum[j], _mm256_loadu_si256(at + i + j));
  }
  const __m256i both = _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
  return static_cast<uint64_t>(_mm256_extract_epi64(both, 0) ^ _mm256_extract_epi64(both, 3));
}

int64_t fma_loop(int64_t rounds, float* sink) {
  constexpr int kChains = 12;
  const __m256 half = _mm256_set1_ps(0.5F);
  __m256 sum[kChains];
#pragma GCC unroll 12
  for (int j = 0; j < kChains; ++j) sum[j] = _mm256_set1_ps(static_cast<float>(j));  // no two alike
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) sum[j] = _mm256_fmadd_ps(sum[j], half, half);
  }
#pragma GCC unroll 12
  for (int j = 0; j < kChains; ++j) *sink += _mm256_cvtss_f32(sum[j]);
  return rounds * kChains * 16;
}

}  // namespace

LimitLoops avx2_limit_loops() {
  return {read_all, fma_loop, nullptr};
}

}  // namespace glint::bench
