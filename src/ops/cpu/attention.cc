// The indexer's selection and attention over the selected rows.
#include "ops/cpu/cache_rows.h"
#include "ops/cpu/cpu_ops_impl.h"
#include "ops/cpu/select_topk.h"

namespace glint::ops::cpu {

namespace {

constexpr int64_t kRowsPerItem = 8;   // rows that share one widened page of keys
constexpr int64_t kPagesPerItem = 8;  // enough work for a thread when there is one row only

/// Floats of one thread's widened page of keys, its scores by head and the heads' weights.
int64_t score_tile_floats(int64_t heads, int64_t head_dim) {
  return kPageTokens * head_dim + heads * kPageTokens + heads;
}

int64_t score_stride_of(int64_t context) {
  return ceil_div(context, kPageTokens) * kPageTokens;
}

/// As Arena rounds it up.
int64_t thread_tiles_bytes(int64_t heads, int64_t head_dim, int threads) {
  return ceil_div(score_tile_floats(heads, head_dim) * 4 * threads, 256) * 256;
}

}  // namespace

int64_t indexer_scratch_bytes_min(int64_t context, int64_t index_heads, int64_t head_dim, int threads) {
  return thread_tiles_bytes(index_heads, head_dim, threads) + score_stride_of(context) * 4;
}

void CpuOps::score_keys(Activation q, Floats w, float scale, const RowMap& rows, const CacheLayer& keys,
                        int64_t heads, int64_t first_row, int64_t row_count, float* scores,
                        int64_t score_stride, float* scratch) {
  const int64_t head_dim = keys.width;
  const int64_t row_groups = ceil_div(row_count, kRowsPerItem);
  const int64_t page_groups = ceil_div(ceil_div(rows.context_max, kPageTokens), kPagesPerItem);
  const int64_t scratch_floats = score_tile_floats(heads, head_dim);
  pool_.run(row_groups * page_groups, [&](int64_t item, int worker) {
    float* tile = scratch + worker * scratch_floats;
    float* by_head = tile + kPageTokens * head_dim;
    float* scaled = by_head + heads * kPageTokens;
    const int64_t group_end = std::min(row_count, (item / page_groups + 1) * kRowsPerItem);
    const int64_t page_end = (item % page_groups + 1) * kPagesPerItem;
    for (int64_t row = item / page_groups * kRowsPerItem; row < group_end;) {
      // Rows of one sequence share its pages.
      const int32_t sequence = rows.sequence[first_row + row];
      int64_t same = row;
      while (same < group_end && rows.sequence[first_row + same] == sequence) ++same;
      const int64_t last_position = rows.position[first_row + same - 1];
      for (int64_t page = item % page_groups * kPagesPerItem;
           page < page_end && page * kPageTokens <= last_position; ++page) {
        const int64_t first_key = page * kPageTokens;
        const int32_t physical = page_of(rows, first_row + row, first_key);
        const int64_t filled = std::min(kPageTokens, last_position + 1 - first_key);
        for (int64_t key = 0; key < filled; ++key) {
          widen_cache_row(keys, physical, key, tile + key * head_dim);
        }
        for (int64_t r = row; r < same; ++r) {
          const int64_t visible = std::min(filled, rows.position[first_row + r] + 1 - first_key);
          if (visible <= 0) continue;
          for (int64_t h = 0; h < heads; ++h) scaled[h] = scale * row_of(w, first_row + r)[h];
          kernels_.dot(row_of(q, first_row + r), head_dim, heads, tile, head_dim, visible, head_dim, by_head,
                       kPageTokens);
          kernels_.weighted_relu(by_head, kPageTokens, heads, visible, scaled,
                                 scores + r * score_stride + first_key);
        }
      }
      row = same;
    }
  });
}

void CpuOps::select(Activation q, Floats w, float scale, const RowMap& rows, const CacheLayer& keys,
                    int64_t heads, int64_t topk, Selection out) {
  const Arena::Scope scope(arena_);
  // In tiles of rows, so that the scores never take more than the budget, whatever the context (one row of
  // 1,048,576 tokens takes 4 MiB).
  const int64_t stride = score_stride_of(rows.context_max);
  const int64_t for_scores = indexer_scratch_bytes_ - thread_tiles_bytes(heads, keys.width, pool_.size());
  const int64_t tile_rows = std::clamp<int64_t>(for_scores / (stride * 4), 1, std::max<int64_t>(1, q.rows));
  float* scores = take<float>(tile_rows * stride);
  float* scratch = take<float>(score_tile_floats(heads, keys.width) * pool_.size());
  if (arena_.measuring()) return;
  for (int64_t first = 0; first < q.rows; first += tile_rows) {
    const int64_t count = std::min(tile_rows, q.rows - first);
    const auto* position = rows.position + first;
    // Where everything fits into the list there is nothing to choose.
    const bool choose = std::any_of(position, position + count, [&](int32_t p) { return p + 1 > topk; });
    if (choose) score_keys(q, w, scale, rows, keys, heads, first, count, scores, stride, scratch);
    each_row(count, choose ? stride : topk, [&](int64_t row) {
      int32_t* list = out.lists.data + (first + row) * out.lists.cols;
      out.count[first + row] = static_cast<int32_t>(
          select_topk(choose ? scores + row * stride : nullptr, position[row] + 1, topk, list));
    });
  }
}

void CpuOps::attend(const float* q, int64_t head_count, const RowMap& rows, int64_t row,
                    const Selection& selection, const CacheLayer& cache, int64_t kv_lora, float scale,
                    float* o, float* scratch) const {
  const int32_t* list = selection.lists.data + row * selection.lists.cols;
  const int64_t count = selection.count[row];
  const int64_t width = cache.width;
  float* values = scratch;
  float* scores = values + selection.lists.cols * width;
  for (int64_t i = 0; i < count; ++i) {
    widen_cache_row(cache, page_of(rows, row, list[i]), list[i] % kPageTokens, values + i * width);
  }
  kernels_.dot(q, width, head_count, values, width, count, width, scores, count);
  for (int64_t h = 0; h < head_count; ++h) {
    kernels_.softmax(scores + h * count, count, scale);
    std::fill_n(o + h * kv_lora, kv_lora, 0.0F);
  }
  kernels_.accumulate(scores, count, head_count, values, width, count, kv_lora, o, kv_lora);
  round_row(o, head_count * kv_lora);
}

void CpuOps::sparse_attention(Activation q, const RowMap& rows, const Selection& selection,
                              const CacheLayer& cache, int64_t heads, int64_t kv_lora, float scale,
                              Activation o) {
  const int64_t topk = selection.lists.cols;
  const Arena::Scope scope(arena_);
  // A single row is cut by heads so that every thread has work; the cut does not touch any head's sums.
  const int64_t parts = std::clamp<int64_t>(ceil_div(pool_.size(), std::max<int64_t>(1, q.rows)), 1, heads);
  const int64_t heads_per_item = ceil_div(heads, parts);
  const int64_t scratch_floats = topk * cache.width + heads * topk;
  float* scratch = take<float>(scratch_floats * pool_.size());
  if (arena_.measuring()) return;
  pool_.run(q.rows * parts, [&](int64_t item, int worker) {
    const int64_t row = item / parts;
    const int64_t head = item % parts * heads_per_item;
    const int64_t count = std::min(heads_per_item, heads - head);
    if (count <= 0) return;
    attend(row_of(q, row) + head * cache.width, count, rows, row, selection, cache, kv_lora, scale,
           row_of(o, row) + head * kv_lora, scratch + worker * scratch_floats);
  });
}

}  // namespace glint::ops::cpu
