#include "ops/declared_ops.h"

#include <algorithm>

#include "base/integers.h"

namespace glint::ops {

namespace {

constexpr int64_t kActivationBytes = 2;
constexpr int64_t kBlock = 128;  // columns that share a scale

constexpr int64_t kVector = 16;  // a quantised row is padded to whole vectors

// Of the sparse attention (ops/cuda/sparse_attention.cu).
constexpr int64_t kAttentionGroup = 128;  // positions whose result is kept apart
constexpr int64_t kHeadsOfBlock = 32;
constexpr int64_t kBlocksOfSplitRows = 66;  // that rows which are split would have unsplit, at most
constexpr int64_t kListMax = 2048;          // positions of a row, at most
constexpr int64_t kLatent = 512;
constexpr int64_t kWidth = 576;

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

void DeclaredOps::take_quantised(int64_t rows, int64_t cols) {
  arena_.take(rows * ceil_div(cols, kVector) * kVector);
  arena_.take(rows * ceil_div(cols, kBlock) * 4);
}

void DeclaredOps::quantised_input(Activation x, const Weight& W) {
  const Arena::Scope scope(arena_);
  if (W.format == WeightFormat::fp8_block) take_quantised(x.rows, x.cols);
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
  arena_.take(indexer_scratch_floats(limits_, q.rows, rows.context_max) * 4);
}

void DeclaredOps::sparse_attention(Activation q, const RowMap& /*rows*/, const Selection& selection,
                                   const CacheLayer& cache, int64_t heads, int64_t kv_lora, float /*scale*/,
                                   Activation /*o*/) {
  const Arena::Scope scope(arena_);
  if (cache.width != kWidth || kv_lora != kLatent || selection.lists.cols > kListMax) return;
  const int64_t rows_max = std::max<int64_t>(1, kBlocksOfSplitRows / ceil_div(heads, kHeadsOfBlock));
  const int64_t groups = ceil_div(selection.lists.cols, kAttentionGroup);
  arena_.take(std::min(q.rows, rows_max) * heads * groups * (kLatent + 2) * 4);
}

void DeclaredOps::experts(Activation x, Ints experts, Floats /*weights*/,
                          std::span<const ExpertWeights> table, Floats /*y*/) {
  const Arena::Scope scope(arena_);
  const Weight& gate = table[0].gate;
  const int64_t rows =
      std::min(x.rows, expert_block_rows(limits_, x.rows, x.cols, gate.rows, experts.cols, kActivationBytes));
  const int64_t pairs = rows * experts.cols;
  const int64_t tiles = std::min(pairs, static_cast<int64_t>(table.size()) + pairs / 8);
  for (const int64_t count : {pairs, pairs, int64_t{1}, tiles, tiles, tiles}) arena_.take(count * 4);
  if (gate.format == WeightFormat::fp8_block) take_quantised(rows, x.cols);
  arena_.take(2 * pairs * gate.rows * kActivationBytes);
  if (gate.format == WeightFormat::fp8_block) take_quantised(pairs, gate.rows);
  arena_.take(pairs * x.cols * 4);
}

int64_t indexer_scratch_floats(const DeclaredLimits& limits, int64_t rows, int64_t context) {
  const int64_t stride = ceil_div(context, kPageTokens) * kPageTokens;
  return std::max(stride, std::min(limits.indexer_scratch_bytes / 4, rows * stride));
}

int64_t expert_block_rows(const DeclaredLimits& limits, int64_t rows, int64_t cols, int64_t inner,
                          int64_t chosen, int64_t element_bytes) {
  const int64_t pair_bytes = cols * 4 + inner * (2 * element_bytes + 1);
  return std::clamp<int64_t>(limits.expert_scratch_bytes / (chosen * pair_bytes), 1,
                             std::max<int64_t>(1, rows));
}

}  // namespace glint::ops
