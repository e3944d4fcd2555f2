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

template <class T>
GLINT_INLINE T load_as(const void* address) {
  T value;
  __builtin_memcpy(&value, address, sizeof value);
  return value;
}

// --- bfloat16: 8 values of 16 bytes by one byte shuffle into the upper halves of the lanes.
GLINT_INLINE __m256i bf16_shuffle() {
  return _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7,  //
                          -1, -1, 8, 9, -1, -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, 15);
}
GLINT_INLINE __m256 widen_bf16(const uint8_t* bytes, __m256i shuffle) {
  return _mm256_castsi256_ps(_mm256_shuffle_epi8(load_twice(bytes), shuffle));
}

// --- FP8 E4M3. A code's bits, moved to the top of a float's exponent and mantissa, are the value times
// 2^-120, for subnormal codes too; one multiplication by scale * 2^120 then gives code * scale with a single
// rounding. That holds while scale * 2^120 is finite and for every code but NaN: fp8_is_plain says so for 128
// codes.
struct Fp8Constants {
  __m256i
      shuffle;  // byte k of 16 to the upper byte of a word: low half 0-3 and 8-11, high half 4-7 and 12-15
  __m256i mask;
  __m256i zero;
};

GLINT_INLINE Fp8Constants fp8_constants() {
  return {_mm256_setr_epi8(-1, 0, -1, 1, -1, 2, -1, 3, -1, 8, -1, 9, -1, 10, -1, 11,  //
                           -1, 4, -1, 5, -1, 6, -1, 7, -1, 12, -1, 13, -1, 14, -1, 15),
          _mm256_set1_epi16(static_cast<int16_t>(0x87F0)), _mm256_setzero_si256()};
}

/// Columns 0-7 and 8-15 of 16 codes, times `scale` = scale * 2^120.
GLINT_INLINE void widen_fp8(const uint8_t* codes, const Fp8Constants& c, __m256 scale, __m256* low,
                            __m256* high) {
  __m256i words = _mm256_shuffle_epi8(load_twice(codes), c.shuffle);
  words = _mm256_and_si256(_mm256_srai_epi16(words, 4), c.mask);
  *low = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_unpacklo_epi16(c.zero, words)), scale);
  *high = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_unpackhi_epi16(c.zero, words)), scale);
}

GLINT_INLINE bool fp8_scale_is_plain(float scale) {
  return __builtin_fabsf(scale) < 128.0F;
}

/// The largest byte per position of code * 2, which is 0xFE for the two NaN codes alone.
GLINT_INLINE __m256i fp8_largest(const uint8_t* codes, __m256i largest) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m256i code = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(codes + 32 * i));
    largest = _mm256_max_epu8(largest, _mm256_add_epi8(code, code));
  }
  return largest;
}

GLINT_INLINE bool fp8_has_no_nan(__m256i largest) {
  const __m256i found = _mm256_cmpeq_epi8(largest, _mm256_set1_epi8(static_cast<char>(0xFE)));
  return _mm256_testz_si256(found, found) != 0;
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

GLINT_INLINE float fp8_scale(const Weight& w, int64_t row, int64_t col) {
  const int64_t blocks = (w.cols + kBlock - 1) / kBlock;
  const int64_t index = row / kBlock * blocks + col / kBlock;
  return load_as<float>(static_cast<const uint8_t*>(w.scale) + index * 4);
}

// --- NVFP4. Nibbles become bfloat16 through two byte tables, bfloat16 becomes float32 by interleaving with
// zeros.
struct Nvfp4Constants {
  __m256i spread;  // of 16 bytes: low half 0,1 4,5 8,9 12,13, high half the others
  __m256i nibble;
  __m256i low_byte, high_byte;  // of the bfloat16 of each code
  __m256i zero;
};

GLINT_INLINE Nvfp4Constants nvfp4_constants() {
  const auto minus = [](int byte) { return static_cast<char>(byte); };
  const __m128i low = _mm_setr_epi8(0, 0, minus(0x80), minus(0xC0), 0, 0x40, minus(0x80), minus(0xC0),  //
                                    0, 0, minus(0x80), minus(0xC0), 0, 0x40, minus(0x80), minus(0xC0));
  const __m128i high = _mm_setr_epi8(0, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40,  //
                                     minus(0x80), minus(0xBF), minus(0xBF), minus(0xBF), minus(0xC0),
                                     minus(0xC0), minus(0xC0), minus(0xC0));
  return {_mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1,  //
                           2, 3, 6, 7, 10, 11, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1),
          _mm256_set1_epi8(15), _mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high),
          _mm256_setzero_si256()};
}

/// The 32 values of 16 bytes, unscaled, 8 to a register.
GLINT_INLINE void widen_nvfp4(const uint8_t* pairs, const Nvfp4Constants& c, __m256 out[4]) {
  const __m256i bytes = _mm256_shuffle_epi8(load_twice(pairs), c.spread);
  const __m256i even = _mm256_and_si256(bytes, c.nibble);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), c.nibble);
  const __m256i codes = _mm256_unpacklo_epi8(even, odd);
  const __m256i low = _mm256_shuffle_epi8(c.low_byte, codes);
  const __m256i high = _mm256_shuffle_epi8(c.high_byte, codes);
  const __m256i first = _mm256_unpacklo_epi8(low, high);
  const __m256i second = _mm256_unpackhi_epi8(low, high);
  out[0] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(c.zero, first));
  out[1] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(c.zero, first));
  out[2] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(c.zero, second));
  out[3] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(c.zero, second));
}

/// table[code] = value(code) combined with the global scale, as Weight defines it.
GLINT_INLINE void nvfp4_scale_table(const Weight& w, float table[256]) {
  const __m256 global = _mm256_set1_ps(w.global_scale);
  for (int i = 0; i < 256; i += 8) {
    const __m256 block = _mm256_loadu_ps(kE4m3.value + i);
    _mm256_storeu_ps(table + i,
                     w.global_divides ? _mm256_div_ps(block, global) : _mm256_mul_ps(block, global));
  }
}

}  // namespace

}  // namespace glint::ops::cpu
