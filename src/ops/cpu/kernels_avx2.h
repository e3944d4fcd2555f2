// What the AVX2 files share. Everything here has internal linkage: a file compiled for an instruction set
// must not emit a function that the linker could choose for callers on lesser machines, so no function of
// another header (std:: included) may be called from these files either.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "ops/cpu/kernels.h"

namespace glint::ops::cpu {

/// The 256 scales that a block code can mean for one NVFP4 matrix.
struct Nvfp4Scales {
  float
      value[256];  // value(code) combined with the global scale as Weight defines it; times 2^-25 if `plain`
  bool plain;      // the factor is exact for every one of them
};

/// Columns [k0, k0 + count) of `rows` rows of W as float32 (FP8: the codes without their scales), each row
/// padded with zeros to a multiple of 8; row r lands at out + r * ldo. k0 is a multiple of kBlock. NVFP4:
/// `scales` is that of nvfp4_scales(w). Asks for the rows [row + rows, row_end) on the way.
void avx2_decode_panel(const Weight& w, const Nvfp4Scales& scales, int64_t row, int64_t rows, int64_t row_end,
                       int64_t k0, int64_t count, float* out, int64_t ldo);
/// Kernels::decode_rows.
void avx2_decode_rows(const Weight& w, int64_t row, int64_t count, float* out, int64_t ldo);
/// Kernels::matmul for few rows of x. `scratch` has M * avx2_fast_x_floats(W.cols) floats.
void avx2_matmul_few(const float* x, int64_t ldx, int64_t M, const Weight& w, int64_t n0, int64_t n1,
                     float* out, int64_t ldo, float* scratch);
/// Kernels::matmul, matmul_scratch_floats and dot.
void avx2_matmul(const float* x, int64_t ldx, int64_t M, const Weight& w, int64_t n0, int64_t n1, float* out,
                 int64_t ldo, bool x_is_bf16, float* scratch);
int64_t avx2_matmul_scratch_floats(int64_t k);
void avx2_dot(const float* x, int64_t ldx, int64_t M, const float* y, int64_t ldy, int64_t N, int64_t K,
              float* out, int64_t ldo);
/// Kernels::accumulate.
void avx2_accumulate(const float* a, int64_t lda, int64_t M, const float* b, int64_t ldb, int64_t I,
                     int64_t C, float* out, int64_t ldo);

// NOLINTNEXTLINE(google-build-namespaces): internal linkage is the point, see above.
namespace {

constexpr int64_t kPanel = 16;   // weight rows decoded together
constexpr int64_t kChunk = 256;  // columns decoded together: two FP8 scale blocks
constexpr int64_t kBlock = 128;  // FP8 scale blocks
constexpr int64_t kGroup = 16;   // NVFP4 scale groups

#define GLINT_INLINE __attribute__((always_inline)) inline

/// Whole cache lines, so that rows of x stay aligned.
GLINT_INLINE int64_t avx2_fast_x_floats(int64_t k) {
  return (k + 15) & ~int64_t{15};
}

GLINT_INLINE int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/// The first `count` lanes, count in [0, 8].
GLINT_INLINE __m256i lane_mask(int64_t count) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), index);
}

/// Keeps a loaded value in a register: the compiler would rather load it again for every use, and loads would
/// then be the bottleneck.
GLINT_INLINE __m256 in_register(__m256 value) {
  asm("" : "+x"(value));
  return value;
}

/// Asks for `bytes` bytes from memory.
GLINT_INLINE void prefetch(const uint8_t* at, int64_t bytes) {
  constexpr int64_t kLine = 64;
  for (int64_t i = 0; i < bytes; i += kLine) _mm_prefetch(reinterpret_cast<const char*>(at + i), _MM_HINT_T0);
}

/// The one order in which eight lanes are added: ((0+1)+(2+3)) + ((4+5)+(6+7)), for four sums at once.
GLINT_INLINE __m128 reduce4(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 ab = _mm256_hadd_ps(a, b);
  const __m256 cd = _mm256_hadd_ps(c, d);
  const __m256 sums = _mm256_hadd_ps(ab, cd);
  return _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
}

GLINT_INLINE float reduce1(__m256 a) {
  return _mm_cvtss_f32(reduce4(a, a, a, a));
}

/// Writes the `count` sums of acc, count in [1, 4].
template <int kCount>
GLINT_INLINE void store_sums(const __m256* acc, float* out) {
  if constexpr (kCount == 4) {
    _mm_storeu_ps(out, reduce4(acc[0], acc[1], acc[2], acc[3]));
  } else {
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) out[i] = reduce1(acc[i]);
  }
}

}  // namespace

}  // namespace glint::ops::cpu
