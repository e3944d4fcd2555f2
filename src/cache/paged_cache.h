// The key-value cache: pages of 64 tokens. A page is one object in one piece of memory: for every layer its
// 64 latent rows, then for every layer with an indexer its 64 index keys, the MTP layer last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/config.h"
#include "model/model.h"

namespace glint {

/// Where things lie inside a page; all offsets are multiples of 64 bytes.
struct CacheLayout {
  ops::CacheFormat format = ops::CacheFormat::bfloat16;
  int64_t latent_row_bytes = 0;        // kv_lora_rank + qk_rope_head_dim values
  int64_t index_row_bytes = 0;         // index_head_dim values
  std::vector<int64_t> latent_offset;  // [layers_with_mtp]
  std::vector<int64_t> index_offset;   // [layers_with_mtp], -1 where there is no indexer
  int64_t page_bytes = 0;
};

CacheLayout cache_layout(const ModelConfig& config, ops::CacheFormat format);

/// The memory of a cache.
class PagedCache {
 public:
  /// Takes (and touches) all memory now. Throws io if the system does not give it.
  PagedCache(const ModelConfig& config, ops::CacheFormat format, int64_t pages);
  ~PagedCache();
  PagedCache(const PagedCache&) = delete;
  PagedCache& operator=(const PagedCache&) = delete;

  [[nodiscard]] const CacheLayout& layout() const { return layout_; }
  [[nodiscard]] const ModelCaches& views() const { return views_; }
  [[nodiscard]] int64_t bytes() const { return slab_bytes_; }

 private:
  CacheLayout layout_;
  ModelCaches views_;
  std::byte* slab_ = nullptr;
  int64_t slab_bytes_ = 0;
};

/// The views of a cache that has no memory: for planning.
ModelCaches planned_views(const ModelConfig& config, ops::CacheFormat format);

}  // namespace glint
