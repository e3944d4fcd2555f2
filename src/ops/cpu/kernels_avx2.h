// What the AVX2 files share: their functions, and their registers as kernels_loops.h wants them.
#pragma once

#include <immintrin.h>

#include "ops/cpu/kernels_loops.h"

namespace glint::ops::cpu {

/// Members of Kernels.
void avx2_matmul(const float* x, int64_t ldx, int64_t M, const Weight& w, int64_t n0, int64_t n1, float* out,
                 int64_t ldo, bool x_is_bf16, float* scratch);
int64_t avx2_matmul_scratch_floats(int64_t k);
void avx2_decode_rows(const Weight& w, int64_t row, int64_t count, float* out, int64_t ldo);
void avx2_dot(const float* x, int64_t ldx, int64_t M, const float* y, int64_t ldy, int64_t N, int64_t K,
              float* out, int64_t ldo);
void avx2_accumulate(const float* a, int64_t lda, int64_t M, const float* b, int64_t ldb, int64_t I,
                     int64_t C, float* out, int64_t ldo);

// NOLINTNEXTLINE(google-build-namespaces): internal linkage is the point, see kernels_loops.h.
namespace {

/// The first `count` lanes, count in [0, 8].
GLINT_INLINE __m256i lane_mask(int64_t count) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), index);
}

struct Avx2 {
  using Element = float;
  using Operand = __m256;
  using Sum = __m256;
  static constexpr int64_t kStep = 8;
  static constexpr int64_t kLanes = 8;
  static constexpr int kTileM = 3;
  static constexpr int kTileN = 4;
  static constexpr int kBlockTileM = 3;

  GLINT_INLINE static Operand load(const float* from) { return _mm256_loadu_ps(from); }
  GLINT_INLINE static Operand load_part(const float* from, int64_t count) {
    return _mm256_maskload_ps(from, lane_mask(count));
  }
  GLINT_INLINE static void store(float* to, Operand value) { _mm256_storeu_ps(to, value); }
  /// Keeps a loaded value in a register: the compiler would rather load it again for every use, and loads
  /// would then be the bottleneck (13 for 12 multiply-adds instead of 7).
  GLINT_INLINE static Operand in_register(Operand value) {
    asm("" : "+x"(value));
    return value;
  }
  GLINT_INLINE static Sum zero() { return _mm256_setzero_ps(); }
  GLINT_INLINE static Sum multiply_add(Operand a, Operand b, Sum sum) { return _mm256_fmadd_ps(a, b, sum); }
  GLINT_INLINE static Sum load_sum(const float* from) { return _mm256_loadu_ps(from); }
  GLINT_INLINE static void store_sum(float* to, Sum sum) { _mm256_storeu_ps(to, sum); }
  GLINT_INLINE static Sum scale_add(Sum sum, float scale, Sum to) {
    return _mm256_fmadd_ps(sum, _mm256_set1_ps(scale), to);
  }

  /// ((0+1)+(2+3)) + ((4+5)+(6+7)) of four sums at once.
  GLINT_INLINE static void finish4(const Sum* sums, float* out) {
    const __m256 low = _mm256_hadd_ps(sums[0], sums[1]);
    const __m256 high = _mm256_hadd_ps(sums[2], sums[3]);
    const __m256 all = _mm256_hadd_ps(low, high);
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
  }
  GLINT_INLINE static float finish(Sum sum) {
    const __m256 pairs = _mm256_hadd_ps(sum, sum);
    const __m256 fours = _mm256_hadd_ps(pairs, pairs);
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(fours), _mm256_extractf128_ps(fours, 1)));
  }
};

}  // namespace

}  // namespace glint::ops::cpu
