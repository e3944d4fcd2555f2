// The AVX2 table, and its operations on vectors.
#include "ops/cpu/kernels_avx2.h"

#include "ops/cpu/kernels_isa.h"

namespace glint::ops::cpu {

namespace {

/// Access to eight floats, or to the first few of them. Masked stores are slow on some processors, so only a
/// ragged end may use them.
struct Whole {
  GLINT_INLINE __m256 load(const float* from) const { return _mm256_loadu_ps(from); }
  GLINT_INLINE void store(float* to, __m256 value) const { _mm256_storeu_ps(to, value); }
  GLINT_INLINE __m256 keep(__m256 value, __m256 /*other*/) const { return value; }
};

struct Part {
  explicit Part(int64_t count) : mask(lane_mask(count)) {}
  GLINT_INLINE __m256 load(const float* from) const { return _mm256_maskload_ps(from, mask); }
  GLINT_INLINE void store(float* to, __m256 value) const { _mm256_maskstore_ps(to, mask, value); }
  /// `value` in the lanes that exist, `other` in the rest.
  GLINT_INLINE __m256 keep(__m256 value, __m256 other) const {
    return _mm256_blendv_ps(other, value, _mm256_castsi256_ps(mask));
  }
  __m256i mask;
};

/// body(i, Whole or Part) for every eight floats of n.
template <class Body>
GLINT_INLINE void each_eight(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) body(i, Whole());
  if (i < n) body(i, Part(n - i));
}

GLINT_INLINE __m256 power_of_two(__m256i exponent) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23));
}

/// exp to about one unit in the last place, over the whole range: 2^n * exp(r) with |r| <= ln(2) / 2, exp(r)
/// by its Taylor sum to r^7 / 7! (the next term is 5e-9), 2^n in two factors so that subnormal results and
/// overflow come out.
GLINT_INLINE __m256 exp_lanes(__m256 x) {
  // A NaN is the second operand of both, and so passes.
  x = _mm256_max_ps(_mm256_set1_ps(-105.0F), _mm256_min_ps(_mm256_set1_ps(89.0F), x));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0F)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62E4p-1F), x);  // ln 2, upper 15 bits: exact product
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7F7D1Cp-20F), r);      // and the rest
  constexpr float kTerms[7] = {1.0F / 720.0F, 1.0F / 120.0F, 1.0F / 24.0F, 1.0F / 6.0F, 0.5F, 1.0F, 1.0F};
  __m256 sum = _mm256_set1_ps(1.0F / 5040.0F);
#pragma GCC unroll 7
  for (int i = 0; i < 7; ++i) sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(kTerms[i]));
  const __m256i exponent = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(exponent, 1);
  return _mm256_mul_ps(_mm256_mul_ps(sum, power_of_two(half)),
                       power_of_two(_mm256_sub_epi32(exponent, half)));
}

float largest_scaled(const float* x, int64_t n, __m256 scale) {
  const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
  __m256 top = lowest;
  each_eight(n, [&](int64_t i, const auto& lanes) {
    // A NaN is the first operand, so that the maximum stays a number; the NaN shows in the sum.
    top = _mm256_max_ps(lanes.keep(_mm256_mul_ps(lanes.load(x + i), scale), lowest), top);
  });
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(top), _mm256_extractf128_ps(top, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

void softmax(float* x, int64_t n, float scale) {
  const __m256 factor = _mm256_set1_ps(scale);
  const __m256 top = _mm256_set1_ps(largest_scaled(x, n, factor));
  __m256 sum = _mm256_setzero_ps();
  each_eight(n, [&](int64_t i, const auto& lanes) {
    const __m256 value = exp_lanes(_mm256_sub_ps(_mm256_mul_ps(lanes.load(x + i), factor), top));
    sum = _mm256_add_ps(sum, lanes.keep(value, _mm256_setzero_ps()));
    lanes.store(x + i, value);
  });
  const __m256 total = _mm256_set1_ps(Avx2::finish(sum));
  each_eight(
      n, [&](int64_t i, const auto& lanes) { lanes.store(x + i, _mm256_div_ps(lanes.load(x + i), total)); });
}

void swiglu(const float* gate, const float* up, int64_t n, float* out) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  each_eight(n, [&](int64_t i, const auto& lanes) {
    const __m256 g = lanes.load(gate + i);
    const __m256 below = _mm256_add_ps(_mm256_set1_ps(1.0F), exp_lanes(_mm256_xor_ps(g, sign)));
    lanes.store(out + i, _mm256_mul_ps(_mm256_div_ps(g, below), lanes.load(up + i)));
  });
}

/// Four accumulators of eight lanes: the order is a function of n alone.
float sum_squares(const float* x, int64_t n) {
  __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m256 value = _mm256_loadu_ps(x + i + 8 * j);
      acc[j] = _mm256_fmadd_ps(value, value, acc[j]);
    }
  }
  for (; i < n; i += 8) {
    const __m256 value = _mm256_maskload_ps(x + i, lane_mask(least(n - i, 8)));
    acc[0] = _mm256_fmadd_ps(value, value, acc[0]);
  }
  return Avx2::finish(_mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3])));
}

void weighted_relu(const float* score, int64_t lds, int64_t H, int64_t N, const float* weight, float* out) {
  const __m256 zero = _mm256_setzero_ps();
  int64_t n = 0;
  for (; n + 32 <= N; n += 32) {
    __m256 sum[4] = {zero, zero, zero, zero};
    for (int64_t h = 0; h < H; ++h) {
      const __m256 factor = _mm256_set1_ps(weight[h]);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const __m256 value = _mm256_max_ps(zero, _mm256_loadu_ps(score + h * lds + n + 8 * j));
        sum[j] = _mm256_fmadd_ps(factor, value, sum[j]);
      }
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) _mm256_storeu_ps(out + n + 8 * j, sum[j]);
  }
  for (; n < N; n += 8) {
    const __m256i mask = lane_mask(least(N - n, 8));
    __m256 sum = zero;
    for (int64_t h = 0; h < H; ++h) {
      const __m256 value = _mm256_max_ps(zero, _mm256_maskload_ps(score + h * lds + n, mask));
      sum = _mm256_fmadd_ps(_mm256_set1_ps(weight[h]), value, sum);
    }
    _mm256_maskstore_ps(out + n, mask, sum);
  }
}

/// Eight floats to eight bfloat16 in the low words of the lanes.
GLINT_INLINE __m256i narrow_lanes(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256 is_nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  const __m256 chosen = _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), is_nan);
  return _mm256_srli_epi32(_mm256_castps_si256(chosen), 16);
}

void round_bf16(float* x, int64_t n) {
  each_eight(n, [&](int64_t i, const auto& lanes) {
    lanes.store(x + i, _mm256_castsi256_ps(_mm256_slli_epi32(narrow_lanes(lanes.load(x + i)), 16)));
  });
}

GLINT_INLINE __m128i pack_lanes(__m256i words) {
  const __m256i packed = _mm256_packus_epi32(words, words);
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

void float_to_bf16(const float* x, int64_t n, uint16_t* out) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i_u*>(out + i), pack_lanes(narrow_lanes(_mm256_loadu_ps(x + i))));
  }
  if (i == n) return;
  const __m128i last = pack_lanes(narrow_lanes(_mm256_maskload_ps(x + i, lane_mask(n - i))));
  __builtin_memcpy(out + i, &last, static_cast<size_t>(n - i) * sizeof(uint16_t));
}

GLINT_INLINE __m256 widen_lanes(__m128i words) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}

void bf16_to_float(const uint16_t* x, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, widen_lanes(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(x + i))));
  }
  if (i == n) return;
  __m128i last = _mm_setzero_si128();
  __builtin_memcpy(&last, x + i, static_cast<size_t>(n - i) * sizeof(uint16_t));
  _mm256_maskstore_ps(out + i, lane_mask(n - i), widen_lanes(last));
}

}  // namespace

const Kernels& avx2_kernels() {
  static constexpr Kernels kTable = {
      .isa = Isa::avx2,
      .matmul = avx2_matmul,
      .matmul_scratch_floats = avx2_matmul_scratch_floats,
      .matmul_block = kPanel,
      .decode_rows = avx2_decode_rows,
      .dot = avx2_dot,
      .accumulate = avx2_accumulate,
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
