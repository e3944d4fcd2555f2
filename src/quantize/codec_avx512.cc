#include <immintrin.h>

#include "quantize/codec_isa.h"
#include "quantize/codec_ymm.h"

namespace glint::quantize {

namespace {

/// Weights of one register: two blocks.
constexpr int64_t kPair = 32;
/// Registers that fill one register of output.
constexpr int64_t kGroup = 4;

GLINT_CODEC_INLINE const __m128i* row_of(const Nvfp4Tables& tables, uint8_t scale) {
  return static_cast<const __m128i*>(static_cast<const void*>(tables.rows[scale].data()));
}

/// 0x1010 in the words of the second block: the second row's place in the table of two rows.
GLINT_CODEC_INLINE __m512i second_block() {
  return _mm512_maskz_set1_epi16(0xFFFF0000U, 0x1010);
}

/// The magnitude codes of two blocks, in both bytes of each word. A search in three steps through each
/// block's row of thresholds: compare with that of code 4, then 2 or 6, then the odd one between.
GLINT_CODEC_INLINE __m512i magnitude_codes(__m512i magnitudes, __m512i rows) {
  const __m512i place = second_block();
  const __m512i at4 = _mm512_add_epi16(place, _mm512_set1_epi16(0x0C04));
  const __m512i at2 = _mm512_add_epi16(place, _mm512_set1_epi16(0x0A02));
  const __m512i at1 = _mm512_add_epi16(place, _mm512_set1_epi16(0x0901));
  __mmask32 above = _mm512_cmpgt_epi16_mask(magnitudes, _mm512_permutexvar_epi8(at4, rows));
  __m512i codes = _mm512_maskz_mov_epi16(above, _mm512_set1_epi16(0x0404));
  above = _mm512_cmpgt_epi16_mask(magnitudes, _mm512_permutexvar_epi8(_mm512_add_epi16(at2, codes), rows));
  codes = _mm512_mask_add_epi16(codes, above, codes, _mm512_set1_epi16(0x0202));
  above = _mm512_cmpgt_epi16_mask(magnitudes, _mm512_permutexvar_epi8(_mm512_add_epi16(at1, codes), rows));
  return _mm512_mask_add_epi16(codes, above, codes, _mm512_set1_epi16(0x0101));
}

/// Codes with signs, where one shift of 8 bits at bit 12 of each dword finds the byte of two nibbles: even
/// words hold their nibble in bits 12..15, odd words in bits 0..3.
GLINT_CODEC_INLINE __m512i placed_nibbles(__m512i weights, __m512i codes) {
  const __m512i shifts = _mm512_set1_epi32(4);
  const __m512i signs = _mm512_set1_epi32(0x00088000);
  const __mmask32 negative = _mm512_cmpgt_epu16_mask(weights, _mm512_set1_epi16(static_cast<short>(0x8000)));
  const __m512i placed = _mm512_sllv_epi16(codes, shifts);
  // No carry: the sign's bit lies above the code's in even words, and bit 3 is free in odd ones.
  return _mm512_mask_add_epi16(placed, negative, placed, signs);
}

struct Sums {
  __m512 power = _mm512_setzero_ps();
  __m512 error = _mm512_setzero_ps();
};

GLINT_CODEC_INLINE __m512 widened(__m256i bf16) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
}

GLINT_CODEC_INLINE void add_errors(__m256i magnitudes, __m256i values, float step, float normalizer,
                                   Sums& sums) {
  const __m512 w = _mm512_mul_ps(widened(magnitudes), _mm512_set1_ps(normalizer));
  const __m512 v = _mm512_mul_ps(widened(values), _mm512_set1_ps(step * normalizer));
  const __m512 gap = _mm512_sub_ps(w, v);
  sums.power = _mm512_add_ps(sums.power, _mm512_mul_ps(w, w));
  sums.error = _mm512_add_ps(sums.error, _mm512_mul_ps(gap, gap));
}

GLINT_CODEC_INLINE __m512i values_of(__m512i codes) {
  // The E2M1 values as BF16: their low bytes, then their high bytes.
  const __m512i value_bytes =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, -128, -64, 0, 64, -128, -64, 0, 63, 63, 63, 64, 64, 64, 64));
  return _mm512_permutexvar_epi8(_mm512_or_si512(codes, _mm512_set1_epi16(0x0800)), value_bytes);
}

/// Two blocks to placed nibbles.
template <bool kErrors>
GLINT_CODEC_INLINE __m512i code_pair(__m512i weights, const Nvfp4Tables& tables, uint8_t scale0,
                                     uint8_t scale1, Sums& sums) {
  const __m512i magnitudes = _mm512_and_si512(weights, _mm512_set1_epi16(0x7FFF));
  const __m512i rows = _mm512_castsi256_si512(
      _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_load_si128(row_of(tables, scale0))),
                              _mm_load_si128(row_of(tables, scale1)), 1));
  const __m512i codes = magnitude_codes(magnitudes, rows);
  if (kErrors) {
    const __m512i values = values_of(codes);
    add_errors(_mm512_castsi512_si256(magnitudes), _mm512_castsi512_si256(values), tables.step[scale0],
               tables.normalizer, sums);
    add_errors(_mm512_extracti64x4_epi64(magnitudes, 1), _mm512_extracti64x4_epi64(values, 1),
               tables.step[scale1], tables.normalizer, sums);
  }
  return placed_nibbles(weights, codes);
}

/// Takes the two bytes of each qword of `placed` to the bytes 2 * kPlace of the qwords of `packed`.
template <int kPlace>
GLINT_CODEC_INLINE __m512i take_bytes(__m512i packed, __m512i placed) {
  const __mmask64 bytes = 0x0303030303030303ULL << (2 * kPlace);
  const __m512i starts = _mm512_set1_epi16(0x2C0C);  // bits 12 and 44
  return _mm512_mask_multishift_epi64_epi8(packed, bytes, starts, placed);
}

/// From qwords that hold two bytes of each of four registers to file order.
GLINT_CODEC_INLINE __m512i file_order(__m512i packed) {
  alignas(64) static constexpr uint8_t kOrder[64] = {
      0,  1,  8,  9,  16, 17, 24, 25, 32, 33, 40, 41, 48, 49, 56, 57, 2,  3,  10, 11, 18, 19,
      26, 27, 34, 35, 42, 43, 50, 51, 58, 59, 4,  5,  12, 13, 20, 21, 28, 29, 36, 37, 44, 45,
      52, 53, 60, 61, 6,  7,  14, 15, 22, 23, 30, 31, 38, 39, 46, 47, 54, 55, 62, 63};
  return _mm512_permutexvar_epi8(_mm512_load_si512(kOrder), packed);
}

template <bool kErrors>
GLINT_CODEC_INLINE void code_blocks(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables,
                                    const uint8_t* scales, uint8_t* packed, Sums& sums) {
  constexpr int64_t kBlocks = 2 * kGroup;
  int64_t block = 0;
  for (; block + kBlocks <= blocks; block += kBlocks) {
    __m512i placed[kGroup];
    for (int64_t i = 0; i < kGroup; ++i) {
      placed[i] = code_pair<kErrors>(_mm512_loadu_si512(weights + block * kBlock + i * kPair), tables,
                                     scales[block + 2 * i], scales[block + 2 * i + 1], sums);
    }
    __m512i bytes = take_bytes<0>(_mm512_setzero_si512(), placed[0]);
    bytes = take_bytes<1>(bytes, placed[1]);
    bytes = take_bytes<2>(bytes, placed[2]);
    bytes = take_bytes<3>(bytes, placed[3]);
    _mm512_storeu_si512(packed + block * kBlock / 2, file_order(bytes));
  }
  for (; block < blocks; ++block) {
    const __m512i w = _mm512_zextsi256_si512(
        _mm256_loadu_si256(static_cast<const __m256i*>(static_cast<const void*>(weights + block * kBlock))));
    const __m512i placed = code_pair<kErrors>(w, tables, scales[block], scales[block], sums);
    const __m512i bytes = file_order(take_bytes<0>(_mm512_setzero_si512(), placed));
    _mm_storel_epi64(static_cast<__m128i*>(static_cast<void*>(packed + block * kBlock / 2)),
                     _mm512_castsi512_si128(bytes));
  }
}

uint16_t avx512_block_amax(const uint16_t* weights, int64_t blocks, uint16_t* amax) {
  return block_amax_ymm(weights, blocks, amax);
}

void avx512_search_scales(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables,
                          uint8_t* scales) {
  search_scales_loop(weights, blocks, tables, scales);
}

void avx512_max_scales(const uint16_t* amax, int64_t blocks, const Nvfp4Tables& tables, uint8_t* scales) {
  max_scales_ymm(amax, blocks, tables.divisor, scales);
}

void avx512_encode(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables, const uint8_t* scales,
                   uint8_t* packed) {
  if (tables.may_underflow) return portable_codec().encode(weights, blocks, tables, scales, packed);
  Sums unused;
  code_blocks<false>(weights, blocks, tables, scales, packed, unused);
}

GLINT_CODEC_INLINE double sum_of(__m512 lanes) {
  float values[kBlock];
  _mm512_storeu_ps(values, lanes);
  return sum_of_lanes(values);
}

ErrorSums avx512_encode_with_error(const uint16_t* weights, int64_t blocks, const Nvfp4Tables& tables,
                                   const uint8_t* scales, uint8_t* packed) {
  if (tables.may_underflow) {
    return portable_codec().encode_with_error(weights, blocks, tables, scales, packed);
  }
  ErrorSums total;
  for (int64_t first = 0; first < blocks; first += kErrorBlocks) {
    const int64_t count = blocks - first < kErrorBlocks ? blocks - first : kErrorBlocks;
    Sums sums;
    code_blocks<true>(weights + first * kBlock, count, tables, scales + first, packed + first * kBlock / 2,
                      sums);
    total.power += sum_of(sums.power);
    total.error += sum_of(sums.error);
  }
  return unscaled(total, tables.normalizer);
}

}  // namespace

const Codec& avx512_codec() {
  static constexpr Codec kCodec = {avx512_block_amax, avx512_max_scales, avx512_encode,
                                   avx512_encode_with_error, avx512_search_scales};
  return kCodec;
}

}  // namespace glint::quantize
