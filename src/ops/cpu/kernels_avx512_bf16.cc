// The AVX-512 table with BF16 dot products (vdpbf16ps) where x is on the bfloat16 grid: BF16 weights as they
// are, FP8 codes as the bfloat16 that they are exactly. One instruction multiplies 32 columns; lane j of a
// sum adds the pairs 2 j, 2 j + 1. The instruction rounds each addition to nearest and takes subnormal
// numbers for zero, so a sum can miss 2^-126 for each column. Other formats, and x in float32, go to the
// AVX-512 table.
#include "ops/cpu/kernels_avx512.h"
#include "ops/cpu/kernels_isa.h"
#include "ops/cpu/kernels_tiles.h"

namespace glint::ops::cpu {

namespace {

struct Avx512Dot : Avx512Sums {
  using Element = uint16_t;
  using Operand = __m512i;
  static constexpr int64_t kStep = 32;
  static constexpr int kTileM = 6;
  static constexpr int kTileN = 4;
  static constexpr int kBlockTileM = 6;

  GLINT_INLINE static Operand load(const uint16_t* from) { return _mm512_loadu_si512(from); }
  GLINT_INLINE static Operand load_part(const uint16_t* from, int64_t count) {
    return _mm512_maskz_loadu_epi16(lanes32(count), from);
  }
  GLINT_INLINE static void store(uint16_t* to, Operand value) { _mm512_storeu_si512(to, value); }
  GLINT_INLINE static Operand in_register(Operand value) {
    asm("" : "+v"(value));
    return value;
  }
  GLINT_INLINE static Sum multiply_add(Operand a, Operand b, Sum sum) {
    return _mm512_dpbf16_ps(sum, __builtin_bit_cast(__m512bh, a), __builtin_bit_cast(__m512bh, b));
  }
};

using Operand = FewOperand<Avx512Dot>;

struct FormatBf16 {
  static constexpr bool kBlockScaled = false;
  static constexpr int64_t kSpan = 32;
  GLINT_INLINE static constexpr int64_t bytes(int64_t count) { return count * 2; }

  GLINT_INLINE void span(const uint8_t* code, int64_t, int64_t, int64_t, uint16_t* out) const {
    _mm512_storeu_si512(out, _mm512_loadu_si512(code));
  }
  template <int kM, int kRows>
  GLINT_INLINE void accumulate(const Operand& p, __m512* acc) const {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      multiply_add<Avx512Dot, kM>(_mm512_loadu_si512(p.code + r * p.stride), p.x.raw, p.x.ld, acc + r * kM);
    }
  }
};

/// A span is one scale block.
struct FormatFp8 {
  static constexpr bool kBlockScaled = true;
  static constexpr int64_t kSpan = kBlock;
  GLINT_INLINE static constexpr int64_t bytes(int64_t count) { return count; }
  GLINT_INLINE explicit FormatFp8(const Weight& weight)
      : w(&weight), order(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7)), tables(fp8_tables()) {}

  GLINT_INLINE float scale(int64_t row, int64_t k) const { return fp8_scale(*w, row, k); }

  /// 64 columns in order.
  GLINT_INLINE void widen(const uint8_t* code, __m512i words[2]) const {
    widen_fp8(_mm512_permutexvar_epi64(order, _mm512_loadu_si512(code)), tables, words);
  }
  GLINT_INLINE void span(const uint8_t* code, int64_t, int64_t, int64_t, uint16_t* out) const {
    for (int64_t i = 0; i < kSpan; i += 64) {
      __m512i words[2];
      widen(code + i, words);
      _mm512_storeu_si512(out + i, words[0]);
      _mm512_storeu_si512(out + i + 32, words[1]);
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
        __m512i words[2];
        widen(p.code + r * p.stride + i, words);
        multiply_add<Avx512Dot, kM>(words[0], p.x.raw + i, p.x.ld, sums + r * kM);
        multiply_add<Avx512Dot, kM>(words[1], p.x.raw + i + 32, p.x.ld, sums + r * kM);
      }
    }
    const float factor = scale(p.row, p.k);
#pragma GCC unroll 8
    for (int i = 0; i < kM * kRows; ++i) acc[i] = Avx512Dot::scale_add(sums[i], factor, acc[i]);
  }

  const Weight* w;
  __m512i order;
  Fp8Tables tables;
};

/// Elements between packed rows of x: whole cache lines.
GLINT_INLINE int64_t packed_ld(int64_t k) {
  return (k + 31) & ~int64_t{31};
}

constexpr int64_t kRowsPacked = 64;  // 64 rows of 2,048 columns are 256 KB

/// float32 on the bfloat16 grid to bfloat16: the upper halves.
void pack_rows(const float* x, int64_t ldx, int64_t m_count, int64_t k_count, uint16_t* out) {
  for (int64_t m = 0; m < m_count; ++m) {
    const float* from = x + m * ldx;
    uint16_t* to = out + m * packed_ld(k_count);
    for (int64_t k = 0; k < k_count; k += 16) {
      const __m512 values = _mm512_maskz_loadu_ps(lanes16(least(k_count - k, 16)), from + k);
      const __m512i upper = _mm512_srli_epi32(_mm512_castps_si512(values), 16);
      _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to + k), _mm512_cvtepi32_epi16(upper));
    }
  }
}

template <class Format>
void multiply(const float* x, int64_t ldx, int64_t m_count, const Weight& w, const Format& format, int64_t n0,
              int64_t n1, float* out, int64_t ldo, float* scratch) {
  auto* packed = reinterpret_cast<uint16_t*>(scratch + many_scratch_floats<Avx512Dot>());
  const int64_t ld = packed_ld(w.cols);
  for (int64_t m = 0; m < m_count; m += kRowsPacked) {
    const int64_t count = least(m_count - m, kRowsPacked);
    pack_rows(x + m * ldx, ldx, count, w.cols, packed);
    if (count <= kFewRows) {
      multiply_few<Avx512Dot>({packed, ld, nullptr, 0}, count, w, format, n0, n1, out + m * ldo, ldo);
    } else {
      multiply_many<Avx512Dot>({packed, ld}, count, w, format, n0, n1, out + m * ldo, ldo, scratch);
    }
  }
}

void matmul(const float* x, int64_t ldx, int64_t M, const Weight& w, int64_t n0, int64_t n1, float* out,
            int64_t ldo, bool x_is_bf16, float* scratch) {
  if (x_is_bf16 && w.format == WeightFormat::bf16) {
    multiply(x, ldx, M, w, FormatBf16(), n0, n1, out, ldo, scratch);
  } else if (x_is_bf16 && w.format == WeightFormat::fp8_block) {
    multiply(x, ldx, M, w, FormatFp8(w), n0, n1, out, ldo, scratch);
  } else {
    avx512_matmul(x, ldx, M, w, n0, n1, out, ldo, x_is_bf16, scratch);
  }
}

int64_t scratch_floats(int64_t k) {
  const int64_t dots = many_scratch_floats<Avx512Dot>() + kRowsPacked * packed_ld(k) / 2;
  const int64_t floats = avx512_matmul_scratch_floats(k);
  return dots > floats ? dots : floats;
}

Kernels make_table() {
  Kernels table = avx512_kernels();
  table.isa = Isa::avx512_bf16;
  table.matmul = matmul;
  table.matmul_scratch_floats = scratch_floats;
  // Rows of x are packed once a call.
  table.matmul_block = 64;
  return table;
}

}  // namespace

const Kernels& avx512_bf16_kernels() {
  static const Kernels kTable = make_table();
  return kTable;
}

}  // namespace glint::ops::cpu
