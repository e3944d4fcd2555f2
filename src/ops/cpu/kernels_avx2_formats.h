// The four weight formats in AVX2 registers, see kernels_loops.h. Internal linkage throughout.
#pragma once

#include "ops/cpu/kernels_avx2_decode.h"

namespace glint::ops::cpu {

// NOLINTNEXTLINE(google-build-namespaces): internal linkage is the point.
namespace {

using Operand = FewOperand<Avx2>;

struct FormatF32 {
  static constexpr bool kBlockScaled = false;
  static constexpr int64_t kSpan = 8;
  GLINT_INLINE static constexpr int64_t bytes(int64_t count) { return count * 4; }
  GLINT_INLINE FormatF32(const Weight& /*w*/, const Nvfp4Scales& /*scales*/) {}

  GLINT_INLINE void span(const uint8_t* code, int64_t, int64_t, int64_t, float* out) const {
    _mm256_storeu_ps(out, load_as<__m256>(code));
  }
  template <int kM, int kRows>
  GLINT_INLINE void accumulate(const Operand& p, __m256* acc) const {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      multiply_add<Avx2, kM>(load_as<__m256>(p.code + r * p.stride), p.x.raw, p.x.ld, acc + r * kM);
    }
  }
};

struct FormatBf16 {
  static constexpr bool kBlockScaled = false;
  static constexpr int64_t kSpan = 8;
  GLINT_INLINE static constexpr int64_t bytes(int64_t count) { return count * 2; }
  GLINT_INLINE FormatBf16(const Weight& /*w*/, const Nvfp4Scales& /*scales*/) : shuffle(bf16_shuffle()) {}

  GLINT_INLINE void span(const uint8_t* code, int64_t, int64_t, int64_t, float* out) const {
    _mm256_storeu_ps(out, widen_bf16(code, shuffle));
  }
  template <int kM, int kRows>
  GLINT_INLINE void accumulate(const Operand& p, __m256* acc) const {
    __m256 xs[kM];
#pragma GCC unroll 4
    for (int m = 0; m < kM; ++m) xs[m] = Avx2::in_register(_mm256_loadu_ps(p.x.raw + m * p.x.ld));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m256 weights = widen_bf16(p.code + r * p.stride, shuffle);
#pragma GCC unroll 4
      for (int m = 0; m < kM; ++m) acc[r * kM + m] = _mm256_fmadd_ps(weights, xs[m], acc[r * kM + m]);
    }
  }

  __m256i shuffle;
};

/// acc[r * kM + m] += factor * (codes of kRows rows times 128 columns of kM rows of x). A function of its
/// own, with acc in memory, so that the sums and the constants fit into the sixteen registers.
template <int kM, int kRows>
GLINT_NOINLINE void add_fp8_block(const uint8_t* code, int64_t stride, const float* x, int64_t ldx,
                                  float factor, __m256* acc) {
  const Fp8Constants constants = fp8_constants();
  __m256 sums[kM * kRows];
#pragma GCC unroll 8
  for (int i = 0; i < kM * kRows; ++i) sums[i] = _mm256_setzero_ps();
#pragma GCC unroll 1
  for (const uint8_t* end = code + kBlock; code != end; code += 16, x += 16) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      __m256 low;
      __m256 high;
      widen_fp8(code + r * stride, constants, &low, &high);
      multiply_add<Avx2, kM>(low, x, ldx, sums + r * kM);
      multiply_add<Avx2, kM>(high, x + 8, ldx, sums + r * kM);
    }
  }
  const __m256 scale = _mm256_set1_ps(factor);
#pragma GCC unroll 8
  for (int i = 0; i < kM * kRows; ++i) acc[i] = _mm256_fmadd_ps(sums[i], scale, acc[i]);
}

/// A span is one scale block.
struct FormatFp8 {
  static constexpr bool kBlockScaled = true;
  static constexpr int64_t kSpan = kBlock;
  GLINT_INLINE static constexpr int64_t bytes(int64_t count) { return count; }
  GLINT_INLINE FormatFp8(const Weight& weight, const Nvfp4Scales& /*scales*/)
      : w(&weight), constants(fp8_constants()) {}

  GLINT_INLINE float scale(int64_t row, int64_t k) const { return fp8_scale(*w, row, k); }

  GLINT_INLINE void span(const uint8_t* code, int64_t, int64_t, int64_t, float* out) const {
    if (fp8_has_nan(code, 0, 1)) {
      for (int64_t i = 0; i < kSpan; ++i) out[i] = kE4m3.value[code[i]];
      return;
    }
    const __m256 factor = _mm256_set1_ps(0x1p120F);
    for (int64_t i = 0; i < kSpan; i += 16) {
      __m256 low;
      __m256 high;
      widen_fp8(code + i, constants, &low, &high);
      _mm256_storeu_ps(out + i, _mm256_mul_ps(low, factor));
      _mm256_storeu_ps(out + i + 8, _mm256_mul_ps(high, factor));
    }
  }

  /// x.fast is x * kFp8FastX: with codes times 2^-120 the sums are those of x times 2^-10, bit for bit
  /// (fp8_scale_x).
  template <int kM, int kRows>
  GLINT_INLINE void accumulate(const Operand& p, __m256* acc) const {
    const float factor = scale(p.row, p.k);
    if (p.x.fast == nullptr || !(__builtin_fabsf(factor) < 0x1p100F) ||
        fp8_has_nan(p.code, p.stride, kRows)) {
      accumulate_slowly<Avx2, kM, kRows>(*this, p, acc);
    } else {
      add_fp8_block<kM, kRows>(p.code, p.stride, p.x.fast, p.x.fast_ld, factor * 0x1p10F, acc);
    }
  }

  const Weight* w;
  Fp8Constants constants;
};

/// kPlain is Nvfp4Scales::plain.
template <bool kPlain>
struct FormatNvfp4 {
  static constexpr bool kBlockScaled = false;
  static constexpr int64_t kSpan = 32;
  GLINT_INLINE static constexpr int64_t bytes(int64_t count) { return count / 2; }
  GLINT_INLINE FormatNvfp4(const Weight& w, const Nvfp4Scales& scales)
      : block_scale(w.block_scale),
        groups(w.cols / kGroup),
        table(scales.value),
        constants(nvfp4_constants()) {}

  GLINT_INLINE void span(const uint8_t* code, int64_t row, int64_t k, int64_t count, float* out) const {
    const uint8_t* block = block_scale + row * groups + k / kGroup;
    const float first = table[block[0]];
    const float second = count > kGroup ? table[block[1]] : first;
    if (!kPlain) {
      for (int i = 0; i < kSpan; ++i) {
        out[i] = kE2m1Value[i % 2 == 0 ? code[i / 2] & 15 : code[i / 2] >> 4] * (i < kGroup ? first : second);
      }
      return;
    }
    const __m256i twice = nvfp4_twice(code, constants);
    const __m256 low = _mm256_set1_ps(first);
    const __m256 high = _mm256_set1_ps(second);
    _mm256_storeu_ps(out, _mm256_mul_ps(nvfp4_part<0>(twice, constants), low));
    _mm256_storeu_ps(out + 8, _mm256_mul_ps(nvfp4_part<1>(twice, constants), low));
    _mm256_storeu_ps(out + 16, _mm256_mul_ps(nvfp4_part<2>(twice, constants), high));
    _mm256_storeu_ps(out + 24, _mm256_mul_ps(nvfp4_part<3>(twice, constants), high));
  }

  template <int kM, int kRows>
  GLINT_INLINE void accumulate(const Operand& p, __m256* acc) const {
    if constexpr (!kPlain) {
      accumulate_slowly<Avx2, kM, kRows>(*this, p, acc);
      return;
    }
    const uint8_t* block = block_scale + p.row * groups + p.k / kGroup;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m256i twice = nvfp4_twice(p.code + r * p.stride, constants);
      const __m256 low = _mm256_broadcast_ss(table + block[r * groups]);
      const __m256 high = _mm256_broadcast_ss(table + block[r * groups + 1]);
      __m256* sums = acc + r * kM;
      multiply_add<Avx2, kM>(_mm256_mul_ps(nvfp4_part<0>(twice, constants), low), p.x.raw, p.x.ld, sums);
      multiply_add<Avx2, kM>(_mm256_mul_ps(nvfp4_part<1>(twice, constants), low), p.x.raw + 8, p.x.ld, sums);
      multiply_add<Avx2, kM>(_mm256_mul_ps(nvfp4_part<2>(twice, constants), high), p.x.raw + 16, p.x.ld,
                             sums);
      multiply_add<Avx2, kM>(_mm256_mul_ps(nvfp4_part<3>(twice, constants), high), p.x.raw + 24, p.x.ld,
                             sums);
    }
  }

  const uint8_t* block_scale;
  int64_t groups;  // a row
  const float* table;
  Nvfp4Constants constants;
};

/// Calls body(format) with the format of `w`.
template <class Body>
GLINT_INLINE void with_format(const Weight& w, const Nvfp4Scales& scales, const Body& body) {
  switch (w.format) {
    case WeightFormat::f32:
      body(FormatF32(w, scales));
      break;
    case WeightFormat::bf16:
      body(FormatBf16(w, scales));
      break;
    case WeightFormat::fp8_block:
      body(FormatFp8(w, scales));
      break;
    case WeightFormat::nvfp4:
      if (scales.plain) {
        body(FormatNvfp4<true>(w, scales));
      } else {
        body(FormatNvfp4<false>(w, scales));
      }
      break;
  }
}

}  // namespace

}  // namespace glint::ops::cpu
