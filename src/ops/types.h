// What operations take and give: views of a backend's memory. Nothing here owns anything.
#pragma once

#include <cstddef>
#include <cstdint>

namespace glint::ops {

/// The type that the forward pass computes in. It fixes the grid that activations are rounded to at the
/// border of every operation; sums inside an operation are float32 in both.
enum class ComputeDType { float32, bfloat16 };

/// A matrix of activations: the backend chooses how an element is held (on the CPU a float on the compute
/// type's grid). Rows are `stride` elements apart.
struct Activation {
  void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
};

/// A float32 matrix that is never rounded: router logits, index weights, logits, sums over experts.
struct Floats {
  float* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
};

/// An int32 matrix without gaps.
struct Ints {
  int32_t* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
};

inline constexpr int64_t kPageTokens = 64;

/// Where each row of a step stands. Rows of one sequence are adjacent, in ascending position.
struct RowMap {
  int64_t rows = 0;
  const int32_t* position = nullptr;  // [rows] position in its sequence = RoPE position = cache slot
  const int32_t* sequence = nullptr;  // [rows] which row of `pages`
  const int32_t* pages = nullptr;     // [sequences][pages_stride]: page of positions 64 p .. 64 p + 63
  int64_t pages_stride = 0;
  int64_t context_max = 0;  // largest position + 1 (while planning: the largest that may come)
};

/// How the rows of a cache page hold their values.
enum class CacheFormat {
  float32,     // values as they are
  bfloat16,    // rounded to nearest even
  fp8_latent,  // the first `quantized` values as E4M3, then one float32 scale for each 128 of them, then the
               // others as bfloat16; scale = max(largest magnitude / 448, FLT_MIN), value = code * scale
  fp8_keys,    // all values as E4M3 with one scale a row, a power of two: 2^ceil(log2(max(largest, 1e-4) /
               // 448)); the 64 float32 scales of a page lie behind its 64 rows
};

/// One layer's slice of the paged cache: row r of page p lies at base + p * page_bytes + r * row_bytes.
/// A latent row holds kv_lora_rank normalised latent values, then qk_rope_head_dim values of the rotated key.
/// An index row holds the index_head_dim values of the normalised, rotated index key.
struct CacheLayer {
  std::byte* base = nullptr;
  int64_t page_bytes = 0;
  int64_t row_bytes = 0;
  int64_t width = 0;      // values of a row
  int64_t quantized = 0;  // of them, those that fp8_latent holds as E4M3
  CacheFormat format = CacheFormat::bfloat16;
};

/// Index lists, one a row: the selected positions in ascending order; list[i] is meaningful for i <
/// count[row].
struct Selection {
  Ints lists;                // [rows][index_topk]
  int32_t* count = nullptr;  // [rows]
};

}  // namespace glint::ops
