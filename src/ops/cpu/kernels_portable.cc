// The reference table: plain loops that say what each kernel means. Slow, and the oracle of the others.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/numeric.h"
#include "ops/cpu/kernels_isa.h"

namespace glint::ops::cpu {

namespace {

constexpr int64_t kBlock = 128;  // FP8 scale blocks
constexpr int64_t kGroup = 16;   // NVFP4 groups

float fp8_value(const Weight& w, int64_t row, int64_t col) {
  const auto* codes = static_cast<const uint8_t*>(w.data);
  const auto* scales = static_cast<const std::byte*>(w.scale);
  const int64_t blocks = (w.cols + kBlock - 1) / kBlock;
  const int64_t index = row / kBlock * blocks + col / kBlock;
  const auto scale = load_unaligned<float>(scales + index * static_cast<int64_t>(sizeof(float)));
  return e4m3_to_float(codes[row * w.cols + col]) * scale;
}

float nvfp4_value(const Weight& w, int64_t row, int64_t col) {
  const auto* pairs = static_cast<const uint8_t*>(w.data);
  const uint8_t pair = pairs[(row * w.cols + col) / 2];
  const float block = e4m3_to_float(w.block_scale[row * (w.cols / kGroup) + col / kGroup]);
  const float scale = w.global_divides ? block / w.global_scale : block * w.global_scale;
  return kE2m1[col % 2 == 0 ? pair & 15 : pair >> 4] * scale;
}

float value(const Weight& w, int64_t row, int64_t col) {
  const auto* bytes = static_cast<const std::byte*>(w.data);
  const int64_t index = row * w.cols + col;
  switch (w.format) {
    case WeightFormat::f32:
      return load_unaligned<float>(bytes + index * 4);
    case WeightFormat::bf16:
      return bf16_to_float(load_unaligned<uint16_t>(bytes + index * 2));
    case WeightFormat::fp8_block:
      return fp8_value(w, row, col);
    case WeightFormat::nvfp4:
      return nvfp4_value(w, row, col);
  }
  return 0;
}

void decode_rows(const Weight& w, int64_t row, int64_t count, float* out, int64_t ldo) {
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < w.cols; ++c) out[r * ldo + c] = value(w, row + r, c);
  }
}

// Eight interleaved sums, as a vector machine would keep them: closer to exact than one, and easy to
// vectorise.
float dot_one(const float* x, const float* y, int64_t n) {
  float lane[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int64_t j = 0; j < 8; ++j) lane[j] = std::fma(x[i + j], y[i + j], lane[j]);
  }
  for (int64_t j = 0; i + j < n; ++j) lane[j] = std::fma(x[i + j], y[i + j], lane[j]);
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

int64_t matmul_scratch_floats(int64_t k) {
  return k;
}

void matmul(const float* x, int64_t ldx, int64_t m_count, const Weight& w, int64_t n0, int64_t n1, float* out,
            int64_t ldo, bool /*x_is_bf16*/, float* scratch) {
  for (int64_t n = n0; n < n1; ++n) {
    decode_rows(w, n, 1, scratch, w.cols);
    for (int64_t m = 0; m < m_count; ++m) out[m * ldo + n - n0] = dot_one(x + m * ldx, scratch, w.cols);
  }
}

void dot(const float* x, int64_t ldx, int64_t m_count, const float* y, int64_t ldy, int64_t n_count,
         int64_t k, float* out, int64_t ldo) {
  for (int64_t m = 0; m < m_count; ++m) {
    for (int64_t n = 0; n < n_count; ++n) out[m * ldo + n] = dot_one(x + m * ldx, y + n * ldy, k);
  }
}

void accumulate(const float* a, int64_t lda, int64_t m_count, const float* b, int64_t ldb, int64_t i_count,
                int64_t c_count, float* out, int64_t ldo) {
  for (int64_t m = 0; m < m_count; ++m) {
    for (int64_t i = 0; i < i_count; ++i) {
      const float factor = a[m * lda + i];
      for (int64_t c = 0; c < c_count; ++c)
        out[m * ldo + c] = std::fma(factor, b[i * ldb + c], out[m * ldo + c]);
    }
  }
}

void weighted_relu(const float* score, int64_t lds, int64_t h_count, int64_t n_count, const float* weight,
                   float* out) {
  for (int64_t n = 0; n < n_count; ++n) {
    float sum = 0;
    for (int64_t h = 0; h < h_count; ++h) sum = std::fma(weight[h], std::max(score[h * lds + n], 0.0F), sum);
    out[n] = sum;
  }
}

void softmax(float* x, int64_t n, float scale) {
  float top = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < n; ++i) top = std::max(top, scale * x[i]);
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    x[i] = std::exp(scale * x[i] - top);
    sum += x[i];
  }
  for (int64_t i = 0; i < n; ++i) x[i] /= sum;
}

void swiglu(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
}

float sum_squares(const float* x, int64_t n) {
  return dot_one(x, x, n);
}

void round_bf16(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = round_to_bf16(x[i]);
}

void narrow(const float* x, int64_t n, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = float_to_bf16(x[i]);
}

void widen(const uint16_t* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = bf16_to_float(x[i]);
}

}  // namespace

const Kernels& portable_kernels() {
  static const Kernels table = {
      .isa = Isa::portable,
      .matmul = matmul,
      .matmul_scratch_floats = matmul_scratch_floats,
      .matmul_block = 16,
      .decode_rows = decode_rows,
      .dot = dot,
      .accumulate = accumulate,
      .weighted_relu = weighted_relu,
      .softmax = softmax,
      .swiglu = swiglu,
      .sum_squares = sum_squares,
      .round_bf16 = round_bf16,
      .float_to_bf16 = narrow,
      .bf16_to_float = widen,
  };
  return table;
}

}  // namespace glint::ops::cpu
