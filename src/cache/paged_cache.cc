#include "cache/paged_cache.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace glint {

namespace {

constexpr int64_t kTile = 128;  // latent values that share a scale in FP8
constexpr int64_t kScaleBytes = 4;

int64_t latent_row_bytes(const ModelConfig& config, KvCacheDType dtype) {
  const int64_t width = config.kv_lora_rank + config.qk_rope_head_dim;
  switch (dtype) {
    case KvCacheDType::float32:
      return width * 4;
    case KvCacheDType::bfloat16_keys:
    case KvCacheDType::bfloat16:
      return width * 2;
    case KvCacheDType::fp8:
      return config.kv_lora_rank + (config.kv_lora_rank + kTile - 1) / kTile * kScaleBytes +
             config.qk_rope_head_dim * 2;
  }
  return 0;
}

/// With the scale, wherever it lies.
int64_t index_token_bytes(const ModelConfig& config, KvCacheDType dtype) {
  if (dtype == KvCacheDType::float32) return config.index_head_dim * 4;
  if (dtype == KvCacheDType::bfloat16_keys) return config.index_head_dim * 2;
  return config.index_head_dim + kScaleBytes;
}

int64_t aligned(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

}  // namespace

ModelCaches cache_views(const ModelConfig& config, const CacheLayout& layout, std::byte* slab) {
  ModelCaches views;
  for (int64_t layer = 0; layer < config.layers_with_mtp(); ++layer) {
    const auto i = static_cast<size_t>(layer);
    const auto at = [&](int64_t offset) { return slab == nullptr ? nullptr : slab + offset; };
    views.latent.push_back({.base = at(layout.latent_offset[i]),
                            .page_bytes = layout.page_bytes,
                            .row_bytes = layout.latent_row_bytes,
                            .width = config.kv_lora_rank + config.qk_rope_head_dim,
                            .quantized = config.kv_lora_rank,
                            .format = layout.latent_format});
    views.index.push_back(layout.index_offset[i] < 0 ? ops::CacheLayer{}
                                                     : ops::CacheLayer{.base = at(layout.index_offset[i]),
                                                                       .page_bytes = layout.page_bytes,
                                                                       .row_bytes = layout.index_row_bytes,
                                                                       .width = config.index_head_dim,
                                                                       .format = layout.index_format});
  }
  return views;
}

std::string_view kv_cache_dtype_name(KvCacheDType dtype) {
  switch (dtype) {
    case KvCacheDType::float32:
      return "float32";
    case KvCacheDType::bfloat16_keys:
      return "bfloat16_keys";
    case KvCacheDType::bfloat16:
      return "bfloat16";
    case KvCacheDType::fp8:
      return "fp8_e4m3";
  }
  return "?";
}

int64_t cache_bytes_per_token(const ModelConfig& config, KvCacheDType dtype, int64_t layers) {
  int64_t bytes = 0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    bytes +=
        latent_row_bytes(config, dtype) + (config.has_indexer(layer) ? index_token_bytes(config, dtype) : 0);
  }
  return bytes;
}

CacheRowBytes cache_row_bytes(const ModelConfig& config, KvCacheDType dtype) {
  const int64_t latent = latent_row_bytes(config, dtype);
  const int64_t index = index_token_bytes(config, dtype);
  return {.latent = latent,
          .index = index,
          .latent_page = aligned(latent * ops::kPageTokens),
          .index_page = aligned(index * ops::kPageTokens)};
}

CacheLayout cache_layout(const ModelConfig& config, KvCacheDType dtype) {
  CacheLayout layout;
  layout.dtype = dtype;
  if (dtype == KvCacheDType::float32) {
    layout.latent_format = layout.index_format = ops::CacheFormat::float32;
  } else if (dtype == KvCacheDType::bfloat16_keys) {
    layout.index_format = ops::CacheFormat::bfloat16;
  } else if (dtype == KvCacheDType::fp8) {
    layout.latent_format = ops::CacheFormat::fp8_latent;
  }
  const CacheRowBytes bytes = cache_row_bytes(config, dtype);
  layout.latent_row_bytes = bytes.latent;
  layout.index_row_bytes = bytes.index;
  if (layout.index_format == ops::CacheFormat::fp8_keys) layout.index_row_bytes -= kScaleBytes;
  for (int64_t layer = 0; layer < config.layers_with_mtp(); ++layer) {
    layout.latent_offset.push_back(layout.page_bytes);
    layout.page_bytes += bytes.latent_page;
  }
  for (int64_t layer = 0; layer < config.layers_with_mtp(); ++layer) {
    layout.index_offset.push_back(config.has_indexer(layer) ? layout.page_bytes : -1);
    if (config.has_indexer(layer)) layout.page_bytes += bytes.index_page;
  }
  return layout;
}

PagedCache::PagedCache(const ModelConfig& config, KvCacheDType dtype, int64_t pages)
    : layout_(cache_layout(config, dtype)), slab_bytes_(pages * layout_.page_bytes) {
  GLINT_CHECK(pages >= 1);
  // Populated at once: a cache that does not fit fails here, not in the middle of a request.
  void* memory = ::mmap(nullptr, static_cast<size_t>(slab_bytes_), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    fail(ErrorKind::io, "cache: cannot take ", slab_bytes_, " bytes for ", pages,
         " pages: ", std::strerror(errno), "; lower --max-model-len or --max-num-seqs");
  }
  slab_ = static_cast<std::byte*>(memory);
  views_ = cache_views(config, layout_, slab_);
}

PagedCache::~PagedCache() {
  ::munmap(slab_, static_cast<size_t>(slab_bytes_));
}

void PagedCache::copy_out(int32_t page, std::byte* out) const {
  std::memcpy(out, slab_ + page * layout_.page_bytes, static_cast<size_t>(layout_.page_bytes));
}

void PagedCache::copy_in(int32_t page, const std::byte* bytes) {
  std::memcpy(slab_ + page * layout_.page_bytes, bytes, static_cast<size_t>(layout_.page_bytes));
}

ModelCaches planned_views(const ModelConfig& config, KvCacheDType dtype) {
  return cache_views(config, cache_layout(config, dtype), nullptr);
}

}  // namespace glint
