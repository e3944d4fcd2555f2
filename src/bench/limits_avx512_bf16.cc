// The limit of BF16 dot products.
#include <immintrin.h>

#include "bench/limits_isa.h"

namespace glint::bench {

namespace {

int64_t dot_loop(int64_t rounds, float* sink) {
  constexpr int kChains = 16;
  const auto half = __builtin_bit_cast(__m512bh, _mm512_set1_epi16(0x3F00));
  __m512 sum[kChains];
#pragma GCC unroll 16
  for (int j = 0; j < kChains; ++j) sum[j] = _mm512_set1_ps(static_cast<float>(j));  // no two alike
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kChains; ++j) sum[j] = _mm512_dpbf16_ps(sum[j], half, half);
    // The operands do not change, and a sum that stops changing must not be noticed.
    asm volatile("" : "+v"(sum[0]));
  }
#pragma GCC unroll 16
  for (int j = 0; j < kChains; ++j) *sink += _mm512_cvtss_f32(sum[j]);
  return rounds * kChains * 64;
}

}  // namespace

LimitLoops avx512_bf16_limit_loops() {
  LimitLoops loops = avx512_limit_loops();
  loops.bf16_dot = dot_loop;
  return loops;
}

}  // namespace glint::bench
