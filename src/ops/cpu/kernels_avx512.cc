// The AVX-512 table, and its operations on vectors.
#include "ops/cpu/kernels_avx512.h"

#include "ops/cpu/kernels_isa.h"

namespace glint::ops::cpu {

namespace {

/// Lanes of [i, i + 16) below n.
GLINT_INLINE __mmask16 lanes_below(int64_t i, int64_t n) {
  return n - i >= 16 ? 0xFFFF : lanes16(n - i);
}

/// exp to about one unit in the last place, over the whole range: 2^n * exp(r) with |r| <= ln(2) / 2, exp(r)
/// by its Taylor sum to r^7 / 7! (the next term is 5e-9).
GLINT_INLINE __m512 exp_lanes(__m512 x) {
  // A NaN is the second operand of both, and so passes.
  x = _mm512_max_ps(_mm512_set1_ps(-105.0F), _mm512_min_ps(_mm512_set1_ps(89.0F), x));
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0F)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62E4p-1F), x);  // ln 2, upper 15 bits: exact product
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7F7D1Cp-20F), r);      // and the rest
  constexpr float kTerms[7] = {1.0F / 720.0F, 1.0F / 120.0F, 1.0F / 24.0F, 1.0F / 6.0F, 0.5F, 1.0F, 1.0F};
  __m512 sum = _mm512_set1_ps(1.0F / 5040.0F);
#pragma GCC unroll 7
  for (int i = 0; i < 7; ++i) sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(kTerms[i]));
  return _mm512_scalef_ps(sum, n);
}

float largest_scaled(const float* x, int64_t n, __m512 scale) {
  __m512 top = _mm512_set1_ps(-__builtin_inff());
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = lanes_below(i, n);
    const __m512 value = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, x + i), scale);
    // A NaN is the first operand, so that the maximum stays a number; the NaN shows in the sum.
    top = _mm512_mask_max_ps(top, lanes, value, top);
  }
  const __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(top), 1));
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(top), upper);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

void softmax(float* x, int64_t n, float scale) {
  const __m512 factor = _mm512_set1_ps(scale);
  const __m512 top = _mm512_set1_ps(largest_scaled(x, n, factor));
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = lanes_below(i, n);
    const __m512 value =
        exp_lanes(_mm512_sub_ps(_mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, x + i), factor), top));
    sum = _mm512_mask_add_ps(sum, lanes, sum, value);
    _mm512_mask_storeu_ps(x + i, lanes, value);
  }
  const __m512 total = _mm512_set1_ps(Avx512::finish(sum));
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = lanes_below(i, n);
    _mm512_mask_storeu_ps(x + i, lanes, _mm512_div_ps(_mm512_maskz_loadu_ps(lanes, x + i), total));
  }
}

void swiglu(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = lanes_below(i, n);
    const __m512 g = _mm512_maskz_loadu_ps(lanes, gate + i);
    const __m512 minus = _mm512_castsi512_ps(
        _mm512_xor_si512(_mm512_castps_si512(g), _mm512_set1_epi32(static_cast<int>(0x80000000U))));
    const __m512 below = _mm512_add_ps(_mm512_set1_ps(1.0F), exp_lanes(minus));
    const __m512 product = _mm512_mul_ps(_mm512_div_ps(g, below), _mm512_maskz_loadu_ps(lanes, up + i));
    _mm512_mask_storeu_ps(out + i, lanes, product);
  }
}

/// Four accumulators of sixteen lanes: the order is a function of n alone.
float sum_squares(const float* x, int64_t n) {
  __m512 acc[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m512 value = _mm512_loadu_ps(x + i + 16 * j);
      acc[j] = _mm512_fmadd_ps(value, value, acc[j]);
    }
  }
  for (; i < n; i += 16) {
    const __m512 value = _mm512_maskz_loadu_ps(lanes_below(i, n), x + i);
    acc[0] = _mm512_fmadd_ps(value, value, acc[0]);
  }
  return Avx512::finish(_mm512_add_ps(_mm512_add_ps(acc[0], acc[1]), _mm512_add_ps(acc[2], acc[3])));
}

void weighted_relu(const float* score, int64_t lds, int64_t H, int64_t N, const float* weight, float* out) {
  for (int64_t n = 0; n < N; n += 64) {
    __mmask16 lanes[4];
    __m512 sum[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const int64_t first = n + 16 * j;
      lanes[j] = first < N ? lanes_below(first, N) : 0;
      sum[j] = _mm512_setzero_ps();
    }
    for (int64_t h = 0; h < H; ++h) {
      const __m512 factor = _mm512_set1_ps(weight[h]);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const __m512 value = _mm512_maskz_loadu_ps(lanes[j], score + h * lds + n + 16 * j);
        sum[j] = _mm512_fmadd_ps(factor, _mm512_max_ps(_mm512_setzero_ps(), value), sum[j]);
      }
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) _mm512_mask_storeu_ps(out + n + 16 * j, lanes[j], sum[j]);
  }
}

/// Sixteen floats to bfloat16 in the low words of the lanes. (The conversion instruction would flush
/// subnormals.)
GLINT_INLINE __m512i narrow_lanes(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, is_nan, quiet), 16);
}

void round_bf16(float* x, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = lanes_below(i, n);
    const __m512i narrow = narrow_lanes(_mm512_maskz_loadu_ps(lanes, x + i));
    _mm512_mask_storeu_ps(x + i, lanes, _mm512_castsi512_ps(_mm512_slli_epi32(narrow, 16)));
  }
}

void float_to_bf16(const float* x, int64_t n, uint16_t* out) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = lanes_below(i, n);
    const __m256i narrow = _mm512_cvtepi32_epi16(narrow_lanes(_mm512_maskz_loadu_ps(lanes, x + i)));
    _mm256_mask_storeu_epi16(out + i, lanes, narrow);
  }
}

void bf16_to_float(const uint16_t* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = lanes_below(i, n);
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, x + i));
    _mm512_mask_storeu_ps(out + i, lanes, _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16)));
  }
}

}  // namespace

const Kernels& avx512_kernels() {
  static constexpr Kernels kTable = {
      .isa = Isa::avx512,
      .matmul = avx512_matmul,
      .matmul_scratch_floats = avx512_matmul_scratch_floats,
      .matmul_block = kPanel,
      .decode_rows = avx512_decode_rows,
      .dot = avx512_dot,
      .accumulate = avx512_accumulate,
      .weighted_relu = weighted_relu,
      .softmax = softmax,
      .swiglu = swiglu,
      .sum_squares = sum_squares,
      .round_bf16 = round_bf16,
      .float_to_bf16 = float_to_bf16,
      .bf16_to_float = bf16_to_float,
  };
  return kTable;
}

}  // namespace glint::ops::cpu
