// The four weight formats in AVX-512 registers of float32, see kernels_loops.h. Internal linkage throughout.
#pragma once

#include "ops/cpu/kernels_avx512.h"

namespace glint::ops::cpu {

// NOLINTNEXTLINE(google-build-namespaces): internal linkage is the point.
namespace {

using Operand = FewOperand<Avx512>;

struct FormatF32 {
  static constexpr bool kBlockScaled = false;
  static constexpr int64_t kSpan = 16;
  GLINT_INLINE static constexpr int64_t bytes(int64_t count) { return count * 4; }
  GLINT_INLINE explicit FormatF32(const Weight& /*w*/) {}

  GLINT_INLINE void span(const uint8_t* code, int64_t, int64_t, int64_t, float* out) const {
    _mm512_storeu_ps(out, _mm512_castsi512_ps(_mm512_loadu_si512(code)));
  }
  template <int kM, int kRows>
  GLINT_INLINE void accumulate(const Operand& p, __m512* acc) const {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512 weights = _mm512_castsi512_ps(_mm512_loadu_si512(p.code + r * p.stride));
      multiply_add<Avx512, kM>(weights, p.x.raw, p.x.ld, acc + r * kM);
    }
  }
};

struct FormatBf16 {
  static constexpr bool kBlockScaled = false;
  static constexpr int64_t kSpan = 32;
  GLINT_INLINE static constexpr int64_t bytes(int64_t count) { return count * 2; }
  // Words 0-3 and 16-19 beside each other, and so on, so that unpacking with zeros gives columns in order.
  GLINT_INLINE explicit FormatBf16(const Weight& /*w*/) : order(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7)) {}

  GLINT_INLINE __m512i words(const uint8_t* code) const {
    return _mm512_permutexvar_epi64(order, _mm512_loadu_si512(code));
  }
  GLINT_INLINE void span(const uint8_t* code, int64_t, int64_t, int64_t, float* out) const {
    const __m512i both = words(code);
    _mm512_storeu_ps(out, lower_words(both));
    _mm512_storeu_ps(out + 16, upper_words(both));
  }
  template <int kM, int kRows>
  GLINT_INLINE void accumulate(const Operand& p, __m512* acc) const {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512i both = words(p.code + r * p.stride);
      multiply_add<Avx512, kM>(lower_words(both), p.x.raw, p.x.ld, acc + r * kM);
      multiply_add<Avx512, kM>(upper_words(both), p.x.raw + 16, p.x.ld, acc + r * kM);
    }
  }

  __m512i order;
};

/// A span is one scale block.
struct FormatFp8 {
  static constexpr bool kBlockScaled = true;
  static constexpr int64_t kSpan = kBlock;
  GLINT_INLINE static constexpr int64_t bytes(int64_t count) { return count; }
  GLINT_INLINE explicit FormatFp8(const Weight& weight)
      : w(&weight),
        // A transpose of four by four double words, so that both unpackings leave the columns in order.
        order(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)),
        tables(fp8_tables()) {}

  GLINT_INLINE float scale(int64_t row, int64_t k) const { return fp8_scale(*w, row, k); }

  /// 64 columns in order.
  GLINT_INLINE void widen(const uint8_t* code, __m512 out[4]) const {
    __m512i words[2];
    widen_fp8(_mm512_permutexvar_epi32(order, _mm512_loadu_si512(code)), tables, words);
    out[0] = lower_words(words[0]);
    out[1] = upper_words(words[0]);
    out[2] = lower_words(words[1]);
    out[3] = upper_words(words[1]);
  }
  GLINT_INLINE void span(const uint8_t* code, int64_t, int64_t, int64_t, float* out) const {
    for (int64_t i = 0; i < kSpan; i += 64) {
      __m512 values[4];
      widen(code + i, values);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) _mm512_storeu_ps(out + i + 16 * j, values[j]);
    }
  }
  template <int kM, int kRows>
  GLINT_INLINE void accumulate(const Operand& p, __m512* acc) const {
    __m512 sums[kM * kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kM * kRows; ++i) sums[i] = _mm512_setzero_ps();
#pragma GCC unroll 1
    for (int64_t i = 0; i < kSpan; i += 64) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        __m512 values[4];
        widen(p.code + r * p.stride + i, values);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          multiply_add<Avx512, kM>(values[j], p.x.raw + i + 16 * j, p.x.ld, sums + r * kM);
        }
      }
    }
    const float factor = scale(p.row, p.k);
#pragma GCC unroll 8
    for (int i = 0; i < kM * kRows; ++i) acc[i] = Avx512::scale_add(sums[i], factor, acc[i]);
  }

  const Weight* w;
  __m512i order;
  Fp8Tables tables;
};

/// The 256 scales that a block code can mean for one NVFP4 matrix.
struct Nvfp4Scales {
  float value[256];
};

GLINT_INLINE void nvfp4_scales(const Weight& w, Nvfp4Scales* scales) {
  if (w.format != WeightFormat::nvfp4) return;
  for (unsigned code = 0; code < 256; ++code) {
    const unsigned magnitude = (static_cast<unsigned>(kFp8Tables.high[code & 127U]) << 8) |
                               static_cast<unsigned>(kFp8Tables.low[code & 127U]);
    const float block = __builtin_bit_cast(float, (magnitude << 16) | ((code & 128U) << 24));
    scales->value[code] = w.global_divides ? block / w.global_scale : block * w.global_scale;
  }
}

struct FormatNvfp4 {
  static constexpr bool kBlockScaled = false;
  static constexpr int64_t kSpan = 32;
  GLINT_INLINE static constexpr int64_t bytes(int64_t count) { return count / 2; }
  GLINT_INLINE FormatNvfp4(const Weight& w, const Nvfp4Scales& scales)
      : block_scale(w.block_scale),
        groups(w.cols / kGroup),
        table(scales.value),
        // Byte 0 of quad word q: the bits from 8 q on; byte 4: from 8 q + 4 on.
        shifts(_mm512_setr_epi64(0x0000'0004'0000'0000, 0x0000'000C'0000'0008, 0x0000'0014'0000'0010,
                                 0x0000'001C'0000'0018, 0x0000'0024'0000'0020, 0x0000'002C'0000'0028,
                                 0x0000'0034'0000'0030, 0x0000'003C'0000'0038)),
        values(_mm512_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, -0.0F, -0.5F, -1.0F, -1.5F,
                              -2.0F, -3.0F, -4.0F, -6.0F)) {}

  /// The 16 values of 8 bytes, unscaled. The lookup takes the lower four bits of a lane.
  GLINT_INLINE __m512 widen(const uint8_t* code) const {
    const __m512i pairs = _mm512_set1_epi64(load_as<int64_t>(code));
    return _mm512_permutexvar_ps(_mm512_multishift_epi64_epi8(shifts, pairs), values);
  }
  GLINT_INLINE void span(const uint8_t* code, int64_t row, int64_t k, int64_t count, float* out) const {
    const uint8_t* block = block_scale + row * groups + k / kGroup;
    const float first = table[block[0]];
    const float second = count > kGroup ? table[block[1]] : first;
    _mm512_storeu_ps(out, _mm512_mul_ps(widen(code), _mm512_set1_ps(first)));
    _mm512_storeu_ps(out + 16, _mm512_mul_ps(widen(code + 8), _mm512_set1_ps(second)));
  }
  template <int kM, int kRows>
  GLINT_INLINE void accumulate(const Operand& p, __m512* acc) const {
    const uint8_t* block = block_scale + p.row * groups + p.k / kGroup;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        const __m512 scale = _mm512_set1_ps(table[block[r * groups + j]]);
        const __m512 weights = _mm512_mul_ps(widen(p.code + r * p.stride + 8 * j), scale);
        multiply_add<Avx512, kM>(weights, p.x.raw + 16 * j, p.x.ld, acc + r * kM);
      }
    }
  }

  const uint8_t* block_scale;
  int64_t groups;  // a row
  const float* table;
  __m512i shifts;
  __m512 values;
};

/// Calls body(format) with the format of `w`.
template <class Body>
GLINT_INLINE void with_format(const Weight& w, const Nvfp4Scales& scales, const Body& body) {
  switch (w.format) {
    case WeightFormat::f32:
      body(FormatF32(w));
      break;
    case WeightFormat::bf16:
      body(FormatBf16(w));
      break;
    case WeightFormat::fp8_block:
      body(FormatFp8(w));
      break;
    case WeightFormat::nvfp4:
      body(FormatNvfp4(w, scales));
      break;
  }
}

}  // namespace

}  // namespace glint::ops::cpu
