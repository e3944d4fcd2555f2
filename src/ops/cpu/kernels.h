// The inner loops of the CPU operations, one table per instruction set, chosen once at run time.
//
// The rule that everything above relies on: an output element is a fixed function of its own inputs. Its
// order of additions depends on K and the weight's format alone, never on M, on N, on blocking, on where a
// row stands or on the thread that runs it. So a row computed alone equals that row in a batch bit for bit.
// Tables of different instruction sets may differ from each other in the last bits.
//
// All strides are in elements. Pointers to float need no alignment beyond their own 4 bytes; weight bytes
// need none. Nothing is read or written outside the stated ranges.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"
#include "tensor/weight.h"

namespace glint::ops::cpu {

struct Kernels {
  Isa isa = Isa::portable;

  /// out[m * ldo + (n - n0)] = dot(x row m, W row n) for m in [0, M), n in [n0, n1); float32 accumulation.
  /// x: float32 [M][W.cols] with row stride ldx; rows that start on a cache line are read up to 1.4 times as
  /// fast. `scratch` has matmul_scratch_floats(W.cols) floats of the caller's, one per thread, best on a
  /// cache line too. FP8: a kernel may add up a block of 128 columns first and multiply that sum by the
  /// scale. With `x_is_bf16` every x is on the bfloat16 grid, so that BF16 dot products lose nothing (but
  /// subnormal numbers, which they take for zero); the flag may change the rounding of sums, but only as a
  /// function of (isa, format, K).
  void (*matmul)(const float* x, int64_t ldx, int64_t M, const Weight& W, int64_t n0, int64_t n1, float* out,
                 int64_t ldo, bool x_is_bf16, float* scratch) = nullptr;
  int64_t (*matmul_scratch_floats)(int64_t K) = nullptr;

  /// The columns [n0, n1) that one call of matmul should get: a caller cuts N at multiples of it.
  int64_t matmul_block = 16;

  /// out[r * ldo + c] = value of W[row + r][c], exactly as Weight defines it (one float32 rounding).
  void (*decode_rows)(const Weight& W, int64_t row, int64_t count, float* out, int64_t ldo) = nullptr;

  /// out[m * ldo + n] = dot(x row m, y row n): float32 [M][K] by float32 [N][K]. The attention's scores.
  void (*dot)(const float* x, int64_t ldx, int64_t M, const float* y, int64_t ldy, int64_t N, int64_t K,
              float* out, int64_t ldo) = nullptr;

  /// out[m * ldo + c] += sum over i of a[m * lda + i] * b[i * ldb + c], i ascending, one fused multiply-add
  /// each (so calls for consecutive ranges of i continue one sum). a: [M][I], b: [I][C].
  void (*accumulate)(const float* a, int64_t lda, int64_t M, const float* b, int64_t ldb, int64_t I,
                     int64_t C, float* out, int64_t ldo) = nullptr;

  /// out[n] = sum over h ascending of weight[h] * max(score[h * lds + n], 0): the indexer's sum over heads.
  void (*weighted_relu)(const float* score, int64_t lds, int64_t H, int64_t N, const float* weight,
                        float* out) = nullptr;

  /// x[i] = exp(scale * x[i] - max over i of scale * x[i]) / sum; n >= 1.
  void (*softmax)(float* x, int64_t n, float scale) = nullptr;

  /// out[i] = silu(gate[i]) * up[i], silu(g) = g / (1 + exp(-g)).
  void (*swiglu)(const float* gate, const float* up, int64_t n, float* out) = nullptr;

  /// Sum of x[i]^2.
  float (*sum_squares)(const float* x, int64_t n) = nullptr;

  /// Rounds in place to the bfloat16 grid (nearest, ties to even).
  void (*round_bf16)(float* x, int64_t n) = nullptr;
  void (*float_to_bf16)(const float* x, int64_t n, uint16_t* out) = nullptr;
  void (*bf16_to_float)(const uint16_t* x, int64_t n, float* out) = nullptr;
};

/// The table of an instruction set that this machine has (Isa::portable always works).
const Kernels& kernels(Isa isa);

}  // namespace glint::ops::cpu
