#include "cache/paged_cache.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace glint {

namespace {

int64_t value_bytes(ops::CacheFormat format) {
  return format == ops::CacheFormat::float32 ? 4 : 2;
}

int64_t aligned(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

ModelCaches make_views(const ModelConfig& config, const CacheLayout& layout, std::byte* slab) {
  ModelCaches views;
  for (int64_t layer = 0; layer < config.layers_with_mtp(); ++layer) {
    const auto i = static_cast<size_t>(layer);
    const auto at = [&](int64_t offset) { return slab == nullptr ? nullptr : slab + offset; };
    views.latent.push_back({.base = at(layout.latent_offset[i]),
                            .page_bytes = layout.page_bytes,
                            .row_bytes = layout.latent_row_bytes,
                            .width = config.kv_lora_rank + config.qk_rope_head_dim,
                            .format = layout.format});
    views.index.push_back(layout.index_offset[i] < 0 ? ops::CacheLayer{}
                                                     : ops::CacheLayer{.base = at(layout.index_offset[i]),
                                                                       .page_bytes = layout.page_bytes,
                                                                       .row_bytes = layout.index_row_bytes,
                                                                       .width = config.index_head_dim,
                                                                       .format = layout.format});
  }
  return views;
}

}  // namespace

CacheLayout cache_layout(const ModelConfig& config, ops::CacheFormat format) {
  CacheLayout layout;
  layout.format = format;
  layout.latent_row_bytes = (config.kv_lora_rank + config.qk_rope_head_dim) * value_bytes(format);
  layout.index_row_bytes = config.index_head_dim * value_bytes(format);
  for (int64_t layer = 0; layer < config.layers_with_mtp(); ++layer) {
    layout.latent_offset.push_back(layout.page_bytes);
    layout.page_bytes += aligned(layout.latent_row_bytes * ops::kPageTokens);
  }
  for (int64_t layer = 0; layer < config.layers_with_mtp(); ++layer) {
    layout.index_offset.push_back(config.has_indexer(layer) ? layout.page_bytes : -1);
    if (config.has_indexer(layer)) layout.page_bytes += aligned(layout.index_row_bytes * ops::kPageTokens);
  }
  return layout;
}

PagedCache::PagedCache(const ModelConfig& config, ops::CacheFormat format, int64_t pages)
    : layout_(cache_layout(config, format)), slab_bytes_(pages * layout_.page_bytes) {
  GLINT_CHECK(pages >= 1);
  // Populated at once: a cache that does not fit fails here, not in the middle of a request.
  void* memory = ::mmap(nullptr, static_cast<size_t>(slab_bytes_), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    fail(ErrorKind::io, "cache: cannot take ", slab_bytes_, " bytes for ", pages,
         " pages: ", std::strerror(errno), "; lower --max-model-len or --max-num-seqs");
  }
  slab_ = static_cast<std::byte*>(memory);
  views_ = make_views(config, layout_, slab_);
}

PagedCache::~PagedCache() {
  ::munmap(slab_, static_cast<size_t>(slab_bytes_));
}

ModelCaches planned_views(const ModelConfig& config, ops::CacheFormat format) {
  return make_views(config, cache_layout(config, format), nullptr);
}

}  // namespace glint
