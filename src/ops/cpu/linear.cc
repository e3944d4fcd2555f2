// Products with the checkpoint's matrices.
#include "ops/cpu/cpu_ops_impl.h"

namespace glint::ops::cpu {

int64_t CpuOps::columns_per_item(int64_t columns) const {
  // Several items a thread, so that a slow thread does not hold the others up; whole blocks, so that a weight
  // row is decoded once.
  const int64_t items = static_cast<int64_t>(pool_.size()) * 8;
  const int64_t blocks = ceil_div(columns, kernels_.matmul_block);
  return std::max<int64_t>(1, blocks / items) * kernels_.matmul_block;
}

void CpuOps::matmul(const float* x, int64_t ldx, int64_t rows, const Weight& W, float* out, int64_t ldo,
                    bool round) {
  const Arena::Scope scope(arena_);
  const int64_t scratch_floats = kernels_.matmul_scratch_floats(W.cols);
  float* scratch = take<float>(scratch_floats * pool_.size());
  if (arena_.measuring()) return;
  const int64_t step = columns_per_item(W.rows);
  pool_.run(ceil_div(W.rows, step), [&](int64_t item, int worker) {
    const int64_t n0 = item * step;
    const int64_t n1 = std::min(W.rows, n0 + step);
    kernels_.matmul(x, ldx, rows, W, n0, n1, out + n0, ldo, bf16(), scratch + worker * scratch_floats);
    if (!round) return;
    for (int64_t row = 0; row < rows; ++row) round_row(out + row * ldo + n0, n1 - n0);
  });
}

void CpuOps::linear(Activation x, const Weight& W, Activation y) {
  matmul(data_of(x), x.stride, x.rows, W, data_of(y), y.stride, true);
}

void CpuOps::linear(Activation x, const Weight& W, Floats y) {
  matmul(data_of(x), x.stride, x.rows, W, y.data, y.stride, false);
}

void CpuOps::absorb_query(Activation q, const Weight& kv_b, int64_t heads, int64_t nope, int64_t rope,
                          int64_t v, Activation y) {
  // Few enough rows that their sums stay in the second-level cache while the rows of W_UK pass by.
  constexpr int64_t kRows = 32;
  constexpr int64_t kWeightRows = 16;
  const int64_t kv_lora = kv_b.cols;
  const Arena::Scope scope(arena_);
  float* scratch = take<float>(kWeightRows * kv_lora * pool_.size());
  if (arena_.measuring()) return;
  const int64_t row_blocks = ceil_div(q.rows, kRows);
  pool_.run(heads * row_blocks, [&](int64_t item, int worker) {
    const int64_t head = item / row_blocks;
    const int64_t row0 = item % row_blocks * kRows;
    const int64_t count = std::min(kRows, q.rows - row0);
    const float* in = row_of(q, row0) + head * (nope + rope);
    float* out = row_of(y, row0) + head * (kv_lora + rope);
    float* rows_of_w = scratch + worker * kWeightRows * kv_lora;
    for (int64_t row = 0; row < count; ++row) std::fill_n(out + row * y.stride, kv_lora, 0.0F);
    for (int64_t i = 0; i < nope; i += kWeightRows) {
      const int64_t n = std::min(kWeightRows, nope - i);
      kernels_.decode_rows(kv_b, head * (nope + v) + i, n, rows_of_w, kv_lora);
      kernels_.accumulate(in + i, q.stride, count, rows_of_w, kv_lora, n, kv_lora, out, y.stride);
    }
    for (int64_t row = 0; row < count; ++row) {
      round_row(out + row * y.stride, kv_lora);
      std::copy_n(in + row * q.stride + nope, rope, out + row * y.stride + kv_lora);
    }
  });
}

void CpuOps::expand_value(Activation o, const Weight& kv_b, int64_t heads, int64_t nope, int64_t v,
                          Activation y) {
  const int64_t kv_lora = kv_b.cols;
  const Arena::Scope scope(arena_);
  const int64_t scratch_floats = kernels_.matmul_scratch_floats(kv_lora);
  float* scratch = take<float>(scratch_floats * pool_.size());
  if (arena_.measuring()) return;
  pool_.run(heads, [&](int64_t head, int worker) {
    const int64_t first = head * (nope + v) + nope;
    float* out = data_of(y) + head * v;
    kernels_.matmul(data_of(o) + head * kv_lora, o.stride, o.rows, kv_b, first, first + v, out, y.stride,
                    bf16(), scratch + worker * scratch_floats);
    for (int64_t row = 0; row < o.rows; ++row) round_row(out + row * y.stride, v);
  });
}

}  // namespace glint::ops::cpu
