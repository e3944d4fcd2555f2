// The limits of AVX-512.
#include <immintrin.h>

#include "bench/limits_isa.h"

namespace glint::bench {

namespace {

uint64_t read_all(const void* data, int64_t bytes) {
  const auto* at = static_cast<const char*>(data);
  __m512i sum[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                    _mm512_setzero_si512()};
  for (int64_t i = 0; i < bytes; i += 256) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[j] = _mm512_xor_si512(sum[j], _mm512_loadu_si512(at + i + 64 * j));
  }
  const __m512i both = _mm512_xor_si512(_mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3]));
  uint64_t words[8];
  _mm512_storeu_si512(words, both);
  return words[0] ^ words[7];
}

int64_t fma_loop(int64_t rounds, float* sink) {
  constexpr int kChains = 16;
  const __m512 half = _mm512_set1_ps(0.5F);
  __m512 sum[kChains];
#pragma GCC unroll 16
  for (int j = 0; j < kChains; ++j) sum[j] = _mm512_set1_ps(static_cast<float>(j));  // no two alike
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kChains; ++j) sum[j] = _mm512_fmadd_ps(sum[j], half, half);
  }
#pragma GCC unroll 16
  for (int j = 0; j < kChains; ++j) *sink += _mm512_cvtss_f32(sum[j]);
  return rounds * kChains * 32;
}

}  // namespace

LimitLoops avx512_limit_loops() {
  return {read_all, fma_loop, nullptr};
}

}  // namespace glint::bench
