#include <immintrin.h>

#include "quantize/codec_isa.h"
#include "quantize/codec_ymm.h"

namespace glint::quantize {

namespace {

GLINT_CODEC_INLINE __m256i load256(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

/// The magnitude codes of 16 weights, in both bytes of each word. A search in three steps through the row of
/// thresholds: compare with that of code 4, then 2 or 6, then the odd one between.
GLINT_CODEC_INLINE __m256i magnitude_codes(__m256i magnitudes, __m256i row) {
  const __m256i high_byte = _mm256_set1_epi16(0x0800);
  __m256i at = _mm256_or_si256(high_byte, _mm256_set1_epi16(0x0404));
  __m256i above = _mm256_cmpgt_epi16(magnitudes, _mm256_shuffle_epi8(row, at));
  __m256i codes = _mm256_and_si256(above, _mm256_set1_epi16(0x0404));
  at = _mm256_or_si256(codes, _mm256_set1_epi16(0x0A02));
  above = _mm256_cmpgt_epi16(magnitudes, _mm256_shuffle_epi8(row, at));
  codes = _mm256_or_si256(codes, _mm256_and_si256(above, _mm256_set1_epi16(0x0202)));
  at = _mm256_or_si256(codes, _mm256_set1_epi16(0x0901));
  above = _mm256_cmpgt_epi16(magnitudes, _mm256_shuffle_epi8(row, at));
  return _mm256_or_si256(codes, _mm256_and_si256(above, _mm256_set1_epi16(0x0101)));
}

/// 8 where the weight is negative and not -0.
GLINT_CODEC_INLINE __m256i sign_nibbles(__m256i weights, __m256i magnitudes) {
  const __m256i negative = _mm256_and_si256(weights, _mm256_sub_epi16(_mm256_setzero_si256(), magnitudes));
  return _mm256_and_si256(_mm256_srli_epi16(negative, 12), _mm256_set1_epi16(8));
}

/// Lanes of float sums of one block: elements 0..7 and 8..15.
struct Lanes {
  __m256 low = _mm256_setzero_ps();
  __m256 high = _mm256_setzero_ps();
};

GLINT_CODEC_INLINE __m256 widened(__m128i bf16) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bf16), 16));
}

GLINT_CODEC_INLINE void add_errors(__m128i magnitudes, __m128i values, __m256 step, __m256 normalizer,
                                   __m256& power, __m256& error) {
  const __m256 w = _mm256_mul_ps(widened(magnitudes), normalizer);
  const __m256 gap = _mm256_sub_ps(w, _mm256_mul_ps(widened(values), step));
  power = _mm256_add_ps(power, _mm256_mul_ps(w, w));
  error = _mm256_add_ps(error, _mm256_mul_ps(gap, gap));
}

/// Nibbles of one block in the low bytes of words; with kErrors also its errors.
template <bool kErrors>
GLINT_CODEC_INLINE __m256i code_block(const uint16_t* weights, const Nvfp4Tables& tables, uint8_t scale,
                                      Lanes& power, Lanes& error) {
  const __m256i w = load256(weights);
  const __m256i magnitudes = _mm256_and_si256(w, _mm256_set1_epi16(0x7FFF));
  const __m256i row = _mm256_broadcastsi128_si256(
      _mm_load_si128(static_cast<const __m128i*>(static_cast<const void*>(tables.rows[scale].data()))));
  const __m256i codes = magnitude_codes(magnitudes, row);
  if (kErrors) {
    // The E2M1 values as BF16: their low bytes, then their high bytes.
    const __m256i value_bytes = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, -128, -64, 0, 64, -128, -64, 0, 63, 63, 63, 64, 64, 64, 64));
    const __m256i at = _mm256_or_si256(codes, _mm256_set1_epi16(0x0800));
    const __m256i values = _mm256_shuffle_epi8(value_bytes, at);
    const __m256 normalizer = _mm256_set1_ps(tables.normalizer);
    const __m256 step = _mm256_mul_ps(_mm256_set1_ps(tables.step[scale]), normalizer);
    add_errors(_mm256_castsi256_si128(magnitudes), _mm256_castsi256_si128(values), step, normalizer,
               power.low, error.low);
    add_errors(_mm256_extracti128_si256(magnitudes, 1), _mm256_extracti128_si256(values, 1), step, normalizer,
               power.high, error.high);
  }
  return _mm256_or_si256(_mm256_and_si256(codes, _mm256_set1_epi16(7)), sign_nibbles(w, magnitudes));
}

/// Four blocks of nibbles (low bytes of words) to 32 bytes in file order.
GLINT_CODEC_INLINE __m256i pack_four(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i factors = _mm256_set1_epi16(0x1001);  // even + 16 * odd
  const __m256i ab = _mm256_maddubs_epi16(_mm256_packus_epi16(a, b), factors);
  const __m256i cd = _mm256_maddubs_epi16(_mm256_packus_epi16(c, d), factors);
  // Each 128-bit half holds the dwords a b c d of its half of each block.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(ab, cd), order);
}

template <bool kErrors>
GLINT_CODEC_INLINE void code_blocks(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables,
                                    const uint8_t* scales, uint8_t* packed, Lanes& power, Lanes& error) {
  int64_t block = 0;
  for (; block + 4 <= blocks; block += 4) {
    __m256i nibbles[4];
    for (int64_t i = 0; i < 4; ++i) {
      nibbles[i] =
          code_block<kErrors>(weights + (block + i) * kBlock, tables, scales[block + i], power, error);
    }
    _mm256_storeu_si256(static_cast<__m256i*>(static_cast<void*>(packed + block * kBlock / 2)),
                        pack_four(nibbles[0], nibbles[1], nibbles[2], nibbles[3]));
  }
  for (; block < blocks; ++block) {
    const __m256i nibbles =
        code_block<kErrors>(weights + block * kBlock, tables, scales[block], power, error);
    const __m256i bytes = pack_four(nibbles, nibbles, nibbles, nibbles);
    _mm_storel_epi64(static_cast<__m128i*>(static_cast<void*>(packed + block * kBlock / 2)),
                     _mm256_castsi256_si128(bytes));
  }
}

uint16_t avx2_block_amax(const uint16_t* weights, int64_t blocks, uint16_t* amax) {
  return block_amax_ymm(weights, blocks, amax);
}

void avx2_search_scales(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables, uint8_t* scales) {
  search_scales_loop(weights, blocks, tables, scales);
}

void avx2_max_scales(const uint16_t* amax, int64_t blocks, const Nvfp4Tables& tables, uint8_t* scales) {
  max_scales_ymm(amax, blocks, tables.divisor, scales);
}

void avx2_encode(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables, const uint8_t* scales,
                 uint8_t* packed) {
  if (tables.may_underflow) return portable_codec().encode(weights, blocks, tables, scales, packed);
  Lanes unused;
  code_blocks<false>(weights, blocks, tables, scales, packed, unused, unused);
}

GLINT_CODEC_INLINE double sum_of(const Lanes& lanes) {
  float values[kBlock];
  _mm256_storeu_ps(values, lanes.low);
  _mm256_storeu_ps(values + 8, lanes.high);
  return sum_of_lanes(values);
}

ErrorSums avx2_encode_with_error(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables,
                                 const uint8_t* scales, uint8_t* packed) {
  if (tables.may_underflow) {
    return portable_codec().encode_with_error(weights, blocks, tables, scales, packed);
  }
  ErrorSums sums;
  for (int64_t first = 0; first < blocks; first += kErrorBlocks) {
    const int64_t count = blocks - first < kErrorBlocks ? blocks - first : kErrorBlocks;
    Lanes power;
    Lanes error;
    code_blocks<true>(weights + first * kBlock, count, tables, scales + first, packed + first * kBlock / 2,
                      power, error);
    sums.power += sum_of(power);
    sums.error += sum_of(error);
  }
  return unscaled(sums, tables.normalizer);
}

}  // namespace

const Codec& avx2_codec() {
  static constexpr Codec kCodec = {avx2_block_amax, avx2_max_scales, avx2_encode, avx2_encode_with_error,
                                   avx2_search_scales};
  return kCodec;
}

}  // namespace glint::quantize
