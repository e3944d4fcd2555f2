// The matrix products in AVX2: kernels_loops.h and kernels_tiles.h with the formats of
// kernels_avx2_formats.h.
#include "ops/cpu/kernels_avx2_formats.h"
#include "ops/cpu/kernels_tiles.h"

namespace glint::ops::cpu {

namespace {

/// Floats between rows of x * kFp8FastX: whole cache lines, so that the rows are aligned.
GLINT_INLINE int64_t fast_ld(int64_t k) {
  return (k + 15) & ~int64_t{15};
}

/// The rows of x with, for FP8, their multiple in scratch.
FewRows<Avx2> few_rows(const float* x, int64_t ldx, int64_t m_count, const Weight& w, float* scratch) {
  FewRows<Avx2> rows = {x, ldx, nullptr, fast_ld(w.cols)};
  if (w.format != WeightFormat::fp8_block) return rows;
  bool fast = true;
  for (int64_t m = 0; m < m_count; ++m)
    fast = fp8_scale_x(x + m * ldx, w.cols, scratch + m * rows.fast_ld) && fast;
  if (fast) rows.fast = scratch;
  return rows;
}

}  // namespace

int64_t avx2_matmul_scratch_floats(int64_t k) {
  const int64_t few = kFewRows * fast_ld(k);
  const int64_t many = many_scratch_floats<Avx2>();
  return few > many ? few : many;
}

void avx2_matmul(const float* x, int64_t ldx, int64_t M, const Weight& w, int64_t n0, int64_t n1, float* out,
                 int64_t ldo, bool /*x_is_bf16*/, float* scratch) {
  Nvfp4Scales scales;
  nvfp4_scales(w, &scales);
  if (M <= kFewRows) {
    const FewRows<Avx2> rows = few_rows(x, ldx, M, w, scratch);
    with_format(w, scales,
                [&](const auto& format) { multiply_few<Avx2>(rows, M, w, format, n0, n1, out, ldo); });
    return;
  }
  for (int64_t m = 0; m < M; m += kRowsMax) {
    const Matrix<Avx2> rows = {x + m * ldx, ldx};
    with_format(w, scales, [&](const auto& format) {
      multiply_many<Avx2>(rows, least(M - m, kRowsMax), w, format, n0, n1, out + m * ldo, ldo, scratch);
    });
  }
}

void avx2_dot(const float* x, int64_t ldx, int64_t M, const float* y, int64_t ldy, int64_t N, int64_t K,
              float* out, int64_t ldo) {
  dot_rows<Avx2>({x, ldx}, M, {y, ldy}, N, K, out, ldo);
}

}  // namespace glint::ops::cpu
