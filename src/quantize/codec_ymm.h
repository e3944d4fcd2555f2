// What the AVX2 and AVX-512 files share: work on block maxima in 256-bit registers. Internal linkage, see
// codec_loops.h.
#pragma once

#include <immintrin.h>

#include "quantize/codec_loops.h"

namespace glint::quantize {

// NOLINTNEXTLINE(google-build-namespaces): internal linkage is the point.
namespace {

GLINT_CODEC_INLINE __m128i load128(const uint16_t* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(from)));
}

/// The largest of 16 unsigned words: vphminposuw finds the smallest, so the words are complemented.
GLINT_CODEC_INLINE uint16_t largest_word(__m256i words) {
  const __m128i half = _mm_max_epu16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  const __m128i least = _mm_minpos_epu16(_mm_xor_si128(half, _mm_set1_epi16(-1)));
  return static_cast<uint16_t>(~_mm_cvtsi128_si32(least));
}

/// Two blocks, each folded to one 128-bit half.
GLINT_CODEC_INLINE __m256i fold_pair(const uint16_t* two_blocks) {
  const __m256i mask = _mm256_set1_epi16(0x7FFF);
  const __m256i low =
      _mm256_inserti128_si256(_mm256_castsi128_si256(load128(two_blocks)), load128(two_blocks + 16), 1);
  const __m256i high =
      _mm256_inserti128_si256(_mm256_castsi128_si256(load128(two_blocks + 8)), load128(two_blocks + 24), 1);
  return _mm256_max_epu16(_mm256_and_si256(low, mask), _mm256_and_si256(high, mask));
}

GLINT_CODEC_INLINE __m256i fold_qwords(__m256i a, __m256i b) {
  return _mm256_max_epu16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

GLINT_CODEC_INLINE __m256i fold_dwords(__m256i a, __m256i b) {
  const __m256 x = _mm256_castsi256_ps(a);
  const __m256 y = _mm256_castsi256_ps(b);
  return _mm256_max_epu16(_mm256_castps_si256(_mm256_shuffle_ps(x, y, 0x88)),
                          _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0xDD)));
}

/// The maxima of 16 blocks in order: a tree of maxima, each step halving what is left of a block.
GLINT_CODEC_INLINE __m256i sixteen_maxima(const uint16_t* weights) {
  __m256i fours[4];
  for (int i = 0; i < 4; ++i) {
    fours[i] = fold_qwords(fold_pair(weights + 64 * i), fold_pair(weights + 64 * i + 32));
  }
  const __m256i first = fold_dwords(fours[0], fours[1]);
  const __m256i second = fold_dwords(fours[2], fours[3]);
  const __m256i even = _mm256_max_epu16(first, _mm256_srli_epi32(first, 16));
  const __m256i odd = _mm256_max_epu16(second, _mm256_slli_epi32(second, 16));
  const __m256i mixed = _mm256_blend_epi16(even, odd, 0xAA);
  // The halves hold even and odd blocks; in each, words alternate between blocks 0..7 and 8..15.
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  const __m256i sorted = _mm256_shuffle_epi8(mixed, order);
  const __m128i evens = _mm256_castsi256_si128(sorted);
  const __m128i odds = _mm256_extracti128_si256(sorted, 1);
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi16(evens, odds)),
                                 _mm_unpackhi_epi16(evens, odds), 1);
}

GLINT_CODEC_INLINE uint16_t block_amax_ymm(const uint16_t* weights, int64_t blocks, uint16_t* amax) {
  __m256i all = _mm256_setzero_si256();
  int64_t block = 0;
  for (; block + 16 <= blocks; block += 16) {
    const __m256i maxima = sixteen_maxima(weights + block * kBlock);
    all = _mm256_max_epu16(all, maxima);
    _mm256_storeu_si256(static_cast<__m256i*>(static_cast<void*>(amax + block)), maxima);
  }
  uint16_t largest = largest_word(all);
  for (; block < blocks; ++block) {
    const __m256i words =
        _mm256_loadu_si256(static_cast<const __m256i*>(static_cast<const void*>(weights + block * kBlock)));
    amax[block] = largest_word(_mm256_and_si256(words, _mm256_set1_epi16(0x7FFF)));
    largest = amax[block] > largest ? amax[block] : largest;
  }
  return largest;
}

/// Eight scale bytes as dwords; the steps of max_scales_loop.
GLINT_CODEC_INLINE __m256i eight_scales(__m128i amax, __m256 divisor) {
  const __m256 a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(amax), 16));
  __m256 raw = _mm256_div_ps(a, divisor);
  const __m256 is_zero = _mm256_cmp_ps(raw, _mm256_setzero_ps(), _CMP_EQ_OQ);
  raw = _mm256_blendv_ps(raw, _mm256_set1_ps(1.0F), is_zero);
  raw = _mm256_min_ps(_mm256_max_ps(raw, _mm256_set1_ps(0x1p-9F)), _mm256_set1_ps(448.0F));
  const __m256i bits = _mm256_castps_si256(raw);
  const __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 20), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFFF)), even);
  const __m256i normal = _mm256_sub_epi32(_mm256_srli_epi32(rounded, 20), _mm256_set1_epi32(120 << 3));
  const __m256i subnormal = _mm256_and_si256(
      _mm256_castps_si256(_mm256_add_ps(raw, _mm256_set1_ps(0x1.8p14F))), _mm256_set1_epi32(0xF));
  const __m256 small = _mm256_cmp_ps(raw, _mm256_set1_ps(0x1p-6F), _CMP_LT_OQ);
  return _mm256_blendv_epi8(normal, subnormal, _mm256_castps_si256(small));
}

GLINT_CODEC_INLINE void max_scales_ymm(const uint16_t* amax, int64_t blocks, float divisor, uint8_t* scales) {
  const __m256 divisors = _mm256_set1_ps(divisor);
  int64_t block = 0;
  for (; block + 8 <= blocks; block += 8) {
    const __m256i dwords = eight_scales(load128(amax + block), divisors);
    const __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(dwords), _mm256_extracti128_si256(dwords, 1));
    _mm_storel_epi64(static_cast<__m128i*>(static_cast<void*>(scales + block)),
                     _mm_packus_epi16(words, words));
  }
  max_scales_loop(amax + block, blocks - block, divisor, scales + block);
}

}  // namespace

}  // namespace glint::quantize
