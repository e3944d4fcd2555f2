// The key-value cache: pages of 64 tokens. A page is one object in one piece of memory: for every layer its
// 64 latent rows, then for every layer with an indexer its 64 index keys, the MTP layer last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cache/page_tier.h"
#include "checkpoint/config.h"
#include "model/model.h"

namespace glint {

/// What a cache holds (the flag --kv-cache-dtype).
enum class KvCacheDType {
  float32,        // float32 rows and index keys: for the float32 reference only
  bfloat16_keys,  // bfloat16 rows and index keys: what the bfloat16 computation itself loses, for traces
  bfloat16,       // bfloat16 latent rows, E4M3 index keys
  fp8,  // E4M3 latents with a scale for each 128 and a bfloat16 rotated key (656 bytes), E4M3 index keys
};

/// "float32", "bfloat16_keys", "bfloat16" or "fp8_e4m3".
std::string_view kv_cache_dtype_name(KvCacheDType dtype);

/// Where things lie inside a page; all offsets are multiples of 64 bytes.
struct CacheLayout {
  KvCacheDType dtype = KvCacheDType::bfloat16;
  ops::CacheFormat latent_format = ops::CacheFormat::bfloat16;
  ops::CacheFormat index_format = ops::CacheFormat::fp8_keys;
  int64_t latent_row_bytes = 0;        // 656 for fp8 at the real sizes, 1152 for bfloat16
  int64_t index_row_bytes = 0;         // without the scale that fp8_keys keeps apart
  std::vector<int64_t> latent_offset;  // [layers_with_mtp]
  std::vector<int64_t> index_offset;   // [layers_with_mtp], -1 where there is no indexer
  int64_t page_bytes = 0;
};

/// What one layer takes: of a token, and of a page of 64 tokens with its rounding up to 64 bytes.
struct CacheRowBytes {
  int64_t latent = 0, index = 0;  // index: with the scale, wherever it lies
  int64_t latent_page = 0, index_page = 0;
};

CacheRowBytes cache_row_bytes(const ModelConfig& config, KvCacheDType dtype);

CacheLayout cache_layout(const ModelConfig& config, KvCacheDType dtype);

/// Bytes that one token takes in the first `layers` layers, without the rounding up of page parts.
int64_t cache_bytes_per_token(const ModelConfig& config, KvCacheDType dtype, int64_t layers);

/// The memory of a cache.
class PagedCache final : public PageMemory {
 public:
  /// Takes (and touches) all memory now. Throws io if the system does not give it.
  PagedCache(const ModelConfig& config, KvCacheDType dtype, int64_t pages);
  ~PagedCache() override;
  PagedCache(const PagedCache&) = delete;
  PagedCache& operator=(const PagedCache&) = delete;

  [[nodiscard]] const CacheLayout& layout() const { return layout_; }
  [[nodiscard]] const ModelCaches& views() const { return views_; }
  [[nodiscard]] int64_t bytes() const { return slab_bytes_; }

  [[nodiscard]] int64_t page_bytes() const override { return layout_.page_bytes; }
  void copy_out(int32_t page, std::byte* out) const override;
  void copy_in(int32_t page, const std::byte* bytes) override;

 private:
  CacheLayout layout_;
  ModelCaches views_;
  std::byte* slab_ = nullptr;
  int64_t slab_bytes_ = 0;
};

/// The views of a cache whose first page lies at `base`, on any device.
ModelCaches cache_views(const ModelConfig& config, const CacheLayout& layout, std::byte* base);

/// The views of a cache that has no memory: for planning.
ModelCaches planned_views(const ModelConfig& config, KvCacheDType dtype);

}  // namespace glint
