// Weight bytes to float32 in AVX2 registers, element k of a row always in lane k mod 8. Internal linkage
// throughout, see kernels_avx2.h.
#pragma once

#include "ops/cpu/kernels_avx2.h"

namespace glint::ops::cpu {

// NOLINTNEXTLINE(google-build-namespaces): internal linkage is the point.
namespace {

/// Sixteen bytes in both halves of a register.
GLINT_INLINE __m256i load_twice(const uint8_t* bytes) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(bytes)));
}

// --- bfloat16: 8 values of 16 bytes by one byte shuffle into the upper halves of the lanes.
GLINT_INLINE __m256i bf16_shuffle() {
  return _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7,  //
                          -1, -1, 8, 9, -1, -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, 15);
}
GLINT_INLINE __m256 widen_bf16(const uint8_t* bytes, __m256i shuffle) {
  return _mm256_castsi256_ps(_mm256_shuffle_epi8(load_twice(bytes), shuffle));
}

/// Registers of 16 words, even words of 8 columns and odd words of the next 8, as the upper halves of floats.
/// (A shift and a mask: unpacking with zeros would take the shuffle unit twice, and that is the busy one.)
GLINT_INLINE __m256 even_words(__m256i words) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}
GLINT_INLINE __m256 odd_words(__m256i words, __m256i upper) {
  return _mm256_castsi256_ps(_mm256_and_si256(words, upper));
}
GLINT_INLINE __m256i upper_words() {
  return _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
}

// --- FP8 E4M3. A code's bits, moved to the top of a float's exponent and mantissa, are the value times
// 2^-120, for subnormal codes too and for every code but NaN.
struct Fp8Constants {
  // Codes to the upper bytes of words: column j to the even, 8 + j to the odd word of lane j.
  __m256i shuffle;
  // Multiplying by it and keeping the upper half shifts a word right by 4, off the busy shift unit.
  __m256i sixteenth;
  __m256i mask;
  __m256i upper;
};

GLINT_INLINE Fp8Constants fp8_constants() {
  return {_mm256_setr_epi8(-1, 0, -1, 8, -1, 1, -1, 9, -1, 2, -1, 10, -1, 3, -1, 11,  //
                           -1, 4, -1, 12, -1, 5, -1, 13, -1, 6, -1, 14, -1, 7, -1, 15),
          _mm256_set1_epi16(0x1000), _mm256_set1_epi16(static_cast<int16_t>(0x87F0)), upper_words()};
}

/// Columns 0-7 and 8-15 of 16 codes, times 2^-120.
GLINT_INLINE void widen_fp8(const uint8_t* codes, const Fp8Constants& c, __m256* low, __m256* high) {
  __m256i words = _mm256_shuffle_epi8(load_twice(codes), c.shuffle);
  words = _mm256_and_si256(_mm256_mulhi_epi16(words, c.sixteenth), c.mask);
  *low = even_words(words);
  *high = odd_words(words, c.upper);
}

/// The factor that keeps small codes' products in range: sums over x * kFp8FastX and codes * 2^-120 are sums
/// over x and codes times 2^-10. The two are the same bits if nothing overflows or becomes subnormal on the
/// way, which is so when every x is zero or of a size in [2^-90, 2^17): products are then multiples of 2^-135
/// and sums below 2^127.
constexpr float kFp8FastX = 0x1p110F;

/// Writes x * kFp8FastX and says whether that may stand for x.
GLINT_INLINE bool fp8_scale_x(const float* x, int64_t count, float* out) {
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  __m256 bad = _mm256_setzero_ps();
  for (int64_t i = 0; i < count; i += 8) {
    const __m256i mask = lane_mask(least(count - i, 8));
    const __m256 value = count - i >= 8 ? _mm256_loadu_ps(x + i) : _mm256_maskload_ps(x + i, mask);
    const __m256 size = _mm256_and_ps(value, magnitude);
    const __m256 small = _mm256_and_ps(_mm256_cmp_ps(size, _mm256_set1_ps(0x1p-90F), _CMP_LT_OQ),
                                       _mm256_cmp_ps(size, _mm256_setzero_ps(), _CMP_NEQ_OQ));
    // "Not less" takes infinity and NaN in.
    bad = _mm256_or_ps(bad, _mm256_or_ps(small, _mm256_cmp_ps(size, _mm256_set1_ps(0x1p17F), _CMP_NLT_UQ)));
    const __m256 scaled = _mm256_mul_ps(value, _mm256_set1_ps(kFp8FastX));
    if (count - i >= 8) {
      _mm256_storeu_ps(out + i, scaled);
    } else {
      _mm256_maskstore_ps(out + i, mask, scaled);
    }
  }
  return _mm256_movemask_ps(bad) == 0;
}

/// Whether a NaN code is among 128 codes in each of `rows` rows: code * 2 is 0xFE for the two NaN codes
/// alone, and nothing is larger.
GLINT_INLINE bool fp8_has_nan(const uint8_t* codes, int64_t stride, int rows) {
  __m256i largest = _mm256_setzero_si256();
#pragma GCC unroll 1
  for (int r = 0; r < rows; ++r, codes += stride) {
    __m256i twice[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m256i code = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(codes + 32 * i));
      twice[i] = _mm256_add_epi8(code, code);
    }
    const __m256i low = _mm256_max_epu8(twice[0], twice[1]);
    const __m256i high = _mm256_max_epu8(twice[2], twice[3]);
    largest = _mm256_max_epu8(largest, _mm256_max_epu8(low, high));
  }
  const __m256i found = _mm256_cmpeq_epi8(largest, _mm256_set1_epi8(static_cast<char>(0xFE)));
  return _mm256_testz_si256(found, found) == 0;
}

/// Every code's value by definition, for what the fast way cannot do.
struct E4m3Table {
  float value[256];
};

constexpr E4m3Table make_e4m3_table() {
  E4m3Table table{};
  for (unsigned code = 0; code < 256; ++code) {
    const unsigned exponent = (code >> 3) & 15U;
    const unsigned mantissa = code & 7U;
    const unsigned sign = (code & 0x80U) << 24;
    float magnitude = __builtin_bit_cast(float, ((exponent + 120U) << 23) | (mantissa << 20));
    if (exponent == 0) magnitude = static_cast<float>(mantissa) * 0x1p-9F;
    unsigned bits = __builtin_bit_cast(unsigned, magnitude) | sign;
    if ((code & 0x7FU) == 0x7FU) bits = 0x7FC00000U | sign;
    table.value[code] = __builtin_bit_cast(float, bits);
  }
  return table;
}

constexpr E4m3Table kE4m3 = make_e4m3_table();

// --- NVFP4. One byte table gives twice the value of a code, as an integer; in the upper byte of a lane it
// converts to float exactly, and the scale takes the factor 2^25 back. (Tables that give bfloat16 need two
// lookups and twice the shuffles; conversion runs on a unit that would be idle.) With scale * 2^-25 exact,
// the one rounding is that of code * scale. The one difference to the definition: code 8, minus zero, comes
// out as plus zero, which no sum shows.
struct Nvfp4Constants {
  __m256i spread;  // of 16 bytes: lane j gets bytes h, 4 + h, 8 + h, 12 + h with h = j / 2
  __m256i shift;   // odd columns are in the upper nibbles
  __m256i nibble;
  __m256i twice;  // twice the value of each code
  __m256i upper;  // the upper byte of a lane
};

GLINT_INLINE Nvfp4Constants nvfp4_constants() {
  const __m128i twice = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  return {_mm256_setr_epi8(0, 4, 8, 12, 0, 4, 8, 12, 1, 5, 9, 13, 1, 5, 9, 13,  //
                           2, 6, 10, 14, 2, 6, 10, 14, 3, 7, 11, 15, 3, 7, 11, 15),
          _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4), _mm256_set1_epi8(15), _mm256_broadcastsi128_si256(twice),
          _mm256_set1_epi32(static_cast<int>(0xFF000000U))};
}

/// Twice the 32 values of 16 bytes, as bytes: lane j holds columns j, 8 + j, 16 + j, 24 + j.
GLINT_INLINE __m256i nvfp4_twice(const uint8_t* pairs, const Nvfp4Constants& c) {
  const __m256i bytes = _mm256_shuffle_epi8(load_twice(pairs), c.spread);
  const __m256i codes = _mm256_and_si256(_mm256_srlv_epi32(bytes, c.shift), c.nibble);
  return _mm256_shuffle_epi8(c.twice, codes);
}
/// Columns 8 * kPart to 8 * kPart + 7 of them, times 2^25.
template <int kPart>
GLINT_INLINE __m256 nvfp4_part(__m256i twice, const Nvfp4Constants& c) {
  if constexpr (kPart == 0) return _mm256_cvtepi32_ps(_mm256_slli_epi32(twice, 24));
  const __m256i shifted = kPart == 3 ? twice : _mm256_slli_epi32(twice, 24 - 8 * kPart);
  return _mm256_cvtepi32_ps(_mm256_and_si256(shifted, c.upper));
}

/// The 256 scales that a block code can mean for one NVFP4 matrix.
struct Nvfp4Scales {
  // value(code) combined with the global scale as Weight defines it; times 2^-25 if `plain`.
  float value[256];
  // The factor is exact for every one of them.
  bool plain;
};

/// Fills the table for an NVFP4 matrix; does nothing for other formats.
GLINT_INLINE void nvfp4_scales(const Weight& w, Nvfp4Scales* scales) {
  if (w.format != WeightFormat::nvfp4) return;
  const __m256 global = _mm256_set1_ps(w.global_scale);
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  __m256 inexact = _mm256_setzero_ps();
  for (int i = 0; i < 256; i += 8) {
    const __m256 block = _mm256_loadu_ps(kE4m3.value + i);
    const __m256 scale = w.global_divides ? _mm256_div_ps(block, global) : _mm256_mul_ps(block, global);
    const __m256 size = _mm256_and_ps(scale, magnitude);
    const __m256 small = _mm256_cmp_ps(size, _mm256_set1_ps(0x1p-101F), _CMP_LT_OQ);
    inexact =
        _mm256_or_ps(inexact, _mm256_and_ps(small, _mm256_cmp_ps(size, _mm256_setzero_ps(), _CMP_NEQ_OQ)));
    _mm256_storeu_ps(scales->value + i, scale);
  }
  scales->plain = _mm256_movemask_ps(inexact) == 0;
  if (!scales->plain) return;
  for (int i = 0; i < 256; i += 8) {
    const __m256 scale = _mm256_loadu_ps(scales->value + i);
    _mm256_storeu_ps(scales->value + i, _mm256_mul_ps(scale, _mm256_set1_ps(0x1p-25F)));
  }
}

constexpr float kE2m1Value[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                  -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

}  // namespace

}  // namespace glint::ops::cpu
