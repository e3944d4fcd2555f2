// What the AVX-512 files share: their functions, and their registers as kernels_loops.h wants them.
#pragma once

#include <immintrin.h>

#include "ops/cpu/kernels_loops.h"

namespace glint::ops::cpu {

/// Members of Kernels.
void avx512_matmul(const float* x, int64_t ldx, int64_t M, const Weight& w, int64_t n0, int64_t n1,
                   float* out, int64_t ldo, bool x_is_bf16, float* scratch);
int64_t avx512_matmul_scratch_floats(int64_t k);
void avx512_decode_rows(const Weight& w, int64_t row, int64_t count, float* out, int64_t ldo);
void avx512_dot(const float* x, int64_t ldx, int64_t M, const float* y, int64_t ldy, int64_t N, int64_t K,
                float* out, int64_t ldo);
void avx512_accumulate(const float* a, int64_t lda, int64_t M, const float* b, int64_t ldb, int64_t I,
                       int64_t C, float* out, int64_t ldo);

// NOLINTNEXTLINE(google-build-namespaces): internal linkage is the point, see kernels_loops.h.
namespace {

/// The first `count` of 16 or 32 lanes.
GLINT_INLINE __mmask16 lanes16(int64_t count) {
  return static_cast<__mmask16>((1U << count) - 1U);
}
GLINT_INLINE __mmask32 lanes32(int64_t count) {
  return static_cast<__mmask32>((uint64_t{1} << count) - 1U);
}

/// Sums of 16 lanes, however they came about.
struct Avx512Sums {
  using Sum = __m512;
  static constexpr int64_t kLanes = 16;

  GLINT_INLINE static Sum zero() { return _mm512_setzero_ps(); }
  GLINT_INLINE static Sum load_sum(const float* from) { return _mm512_loadu_ps(from); }
  GLINT_INLINE static void store_sum(float* to, Sum sum) { _mm512_storeu_ps(to, sum); }
  GLINT_INLINE static Sum scale_add(Sum sum, float scale, Sum to) {
    return _mm512_fmadd_ps(sum, _mm512_set1_ps(scale), to);
  }

  /// Lane j and lane 8 + j.
  GLINT_INLINE static __m256 halves(Sum sum) {
    const __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(sum), 1));
    return _mm256_add_ps(_mm512_castps512_ps256(sum), upper);
  }
  /// With h = halves(sum): ((h0+h1)+(h2+h3)) + ((h4+h5)+(h6+h7)) of four sums at once.
  GLINT_INLINE static void finish4(const Sum* sums, float* out) {
    const __m256 low = _mm256_hadd_ps(halves(sums[0]), halves(sums[1]));
    const __m256 high = _mm256_hadd_ps(halves(sums[2]), halves(sums[3]));
    const __m256 all = _mm256_hadd_ps(low, high);
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
  }
  GLINT_INLINE static float finish(Sum sum) {
    const __m256 eight = halves(sum);
    const __m256 pairs = _mm256_hadd_ps(eight, eight);
    const __m256 fours = _mm256_hadd_ps(pairs, pairs);
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(fours), _mm256_extractf128_ps(fours, 1)));
  }
};

struct Avx512 : Avx512Sums {
  using Element = float;
  using Operand = __m512;
  static constexpr int64_t kStep = 16;
  static constexpr int kTileM = 6;
  static constexpr int kTileN = 4;
  static constexpr int kBlockTileM = 6;

  GLINT_INLINE static Operand load(const float* from) { return _mm512_loadu_ps(from); }
  GLINT_INLINE static Operand load_part(const float* from, int64_t count) {
    return _mm512_maskz_loadu_ps(lanes16(count), from);
  }
  GLINT_INLINE static void store(float* to, Operand value) { _mm512_storeu_ps(to, value); }
  GLINT_INLINE static Operand in_register(Operand value) {
    asm("" : "+v"(value));
    return value;
  }
  GLINT_INLINE static Sum multiply_add(Operand a, Operand b, Sum sum) { return _mm512_fmadd_ps(a, b, sum); }
};

// --- bfloat16 values of bytes.

/// FP8 E4M3 codes become bfloat16 exactly, NaN and subnormals included, by two tables of 128 bytes.
struct Fp8Tables {
  __m512i low[2];   // lower bytes of the bfloat16 of codes 0-63 and 64-127
  __m512i high[2];  // upper bytes
};

struct Fp8TableBytes {
  uint8_t low[128];
  uint8_t high[128];
};

constexpr Fp8TableBytes make_fp8_tables() {
  Fp8TableBytes tables{};
  for (unsigned code = 0; code < 128; ++code) {
    const unsigned exponent = code >> 3;
    const unsigned mantissa = code & 7U;
    unsigned bits = ((exponent + 120U) << 7) | (mantissa << 4);
    if (exponent == 0) bits = __builtin_bit_cast(unsigned, static_cast<float>(mantissa) * 0x1p-9F) >> 16;
    if (code == 0x7F) bits = 0x7FC0;
    tables.low[code] = static_cast<uint8_t>(bits & 0xFFU);
    tables.high[code] = static_cast<uint8_t>(bits >> 8);
  }
  return tables;
}

alignas(64) constexpr Fp8TableBytes kFp8Tables = make_fp8_tables();

GLINT_INLINE Fp8Tables fp8_tables() {
  return {{_mm512_load_si512(kFp8Tables.low), _mm512_load_si512(kFp8Tables.low + 64)},
          {_mm512_load_si512(kFp8Tables.high), _mm512_load_si512(kFp8Tables.high + 64)}};
}

/// 64 codes to bfloat16: words[0] has the codes of the lower 8 bytes of every 16, words[1] those of the
/// upper.
GLINT_INLINE void widen_fp8(__m512i codes, const Fp8Tables& tables, __m512i words[2]) {
  // The lookup takes the lower seven bits of a code; the eighth is the sign of the value.
  const __m512i low = _mm512_permutex2var_epi8(tables.low[0], codes, tables.low[1]);
  const __m512i magnitude = _mm512_permutex2var_epi8(tables.high[0], codes, tables.high[1]);
  constexpr int kAOrBAndC = 0xF8;
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  const __m512i high = _mm512_ternarylogic_epi32(magnitude, codes, sign, kAOrBAndC);
  words[0] = _mm512_unpacklo_epi8(low, high);
  words[1] = _mm512_unpackhi_epi8(low, high);
}

/// bfloat16 words to float32: lanes get the lower or the upper four words of every eight.
GLINT_INLINE __m512 lower_words(__m512i words) {
  return _mm512_castsi512_ps(_mm512_unpacklo_epi16(_mm512_setzero_si512(), words));
}
GLINT_INLINE __m512 upper_words(__m512i words) {
  return _mm512_castsi512_ps(_mm512_unpackhi_epi16(_mm512_setzero_si512(), words));
}

}  // namespace

}  // namespace glint::ops::cpu
