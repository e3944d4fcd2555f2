#include "ops/declared_ops.h"

#include <algorithm>

#include "base/integers.h"

namespace glint::ops {

namespace {

constexpr int64_t kActivationBytes = 2;
constexpr int64_t kBlock = 128;  // columns that share a scale

int64_t quantised_row_bytes(int64_t columns) {
  return columns + ceil_div(columns, kBlock) * 4;
}

}  // namespace

Activation DeclaredOps::activation(int64_t rows, int64_t cols) {
  return {arena_.take(rows * cols * kActivationBytes), rows, cols, cols};
}

Floats DeclaredOps::floats(int64_t rows, int64_t cols) {
  return {static_cast<float*>(arena_.take(rows * cols * 4)), rows, cols, cols};
}

Ints DeclaredOps::ints(int64_t rows, int64_t cols) {
  return {static_cast<int32_t*>(arena_.take(rows * cols * 4)), rows, cols};
}

Activation DeclaredOps::columns(Activation x, int64_t /*first*/, int64_t cols) const {
  return {x.data, x.rows, cols, x.stride};
}

void DeclaredOps::quantised_input(Activation x, const Weight& W) {
  const Arena::Scope scope(arena_);
  if (W.format == WeightFormat::fp8_block) arena_.take(x.rows * quantised_row_bytes(x.cols));
}

void DeclaredOps::linear(Activation x, const Weight& W, Activation /*y*/) {
  quantised_input(x, W);
}

void DeclaredOps::linear(Activation x, const Weight& W, Floats /*y*/) {
  quantised_input(x, W);
}

void DeclaredOps::select(Activation q, Floats /*w*/, float /*scale*/, const RowMap& rows,
                         const CacheLayer& /*keys*/, int64_t /*heads*/, int64_t /*topk*/, Selection /*out*/) {
  const Arena::Scope scope(arena_);
  const int64_t row_bytes = ceil_div(rows.context_max, kPageTokens) * kPageTokens * 4;
  const int64_t tile_rows =
      std::clamp<int64_t>(limits_.indexer_scratch_bytes / row_bytes, 1, std::max<int64_t>(1, q.rows));
  arena_.take(tile_rows * row_bytes);
}

void DeclaredOps::experts(Activation x, Ints experts, Floats /*weights*/,
                          std::span<const ExpertWeights> table, Floats /*y*/) {
  const Arena::Scope scope(arena_);
  const Weight& gate = table[0].gate;
  const int64_t input =
      gate.format == WeightFormat::fp8_block ? quantised_row_bytes(x.cols) : x.cols * kActivationBytes;
  const int64_t pair_bytes = input + (2 * gate.rows + x.cols) * kActivationBytes;
  const int64_t row_bytes = experts.cols * pair_bytes;
  const int64_t rows =
      std::clamp<int64_t>(limits_.expert_scratch_bytes / row_bytes, 1, std::max<int64_t>(1, x.rows));
  arena_.take(rows * row_bytes);
}

}  // namespace glint::ops
