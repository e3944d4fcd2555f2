// Where the rows of the paged cache lie.
#pragma once

#include "ops/types.h"

namespace glint::ops::cpu {

inline std::byte* cache_row(const CacheLayer& cache, int32_t page, int64_t row) {
  return cache.base + page * cache.page_bytes + row * cache.row_bytes;
}

/// The page that holds `position` of the sequence that step row `row` belongs to.
inline int32_t page_of(const RowMap& rows, int64_t row, int64_t position) {
  return rows.pages[rows.sequence[row] * rows.pages_stride + position / kPageTokens];
}

/// Where fp8_keys keeps the scale of a row.
inline std::byte* key_scale(const CacheLayer& cache, int32_t page, int64_t row) {
  return cache_row(cache, page, kPageTokens) + row * static_cast<int64_t>(sizeof(float));
}

}  // namespace glint::ops::cpu
