#include "cache/paged_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <set>

namespace glint {
namespace {

ModelConfig published() {
  return load_model_config(std::filesystem::path(GLINT_TEST_DATA) / "glm-5.3-config.json");
}

TEST(CacheLayout, ReproducesThePublishedBytesPerToken) {
  const ModelConfig config = published();
  EXPECT_EQ(cache_bytes_per_token(config, KvCacheDType::fp8, 78), 53940);
  EXPECT_EQ(cache_bytes_per_token(config, KvCacheDType::fp8, 79), 54728);
  EXPECT_EQ(cache_bytes_per_token(config, KvCacheDType::bfloat16, 78), 92628);
  EXPECT_EQ(cache_bytes_per_token(config, KvCacheDType::bfloat16, 79), 93912);
  // At the real sizes no part of a page needs rounding up.
  EXPECT_EQ(cache_layout(config, KvCacheDType::fp8).page_bytes, 64 * 54728);
  EXPECT_EQ(cache_layout(config, KvCacheDType::fp8).latent_row_bytes, 656);
  EXPECT_EQ(cache_layout(config, KvCacheDType::bfloat16).latent_row_bytes, 1152);
}

TEST(CacheLayout, KeepsPartsApartAndIndexKeysOnFullLayersOnly) {
  const ModelConfig config = published();
  const CacheLayout layout = cache_layout(config, KvCacheDType::fp8);
  std::set<int64_t> starts;
  int64_t indexers = 0;
  for (size_t layer = 0; layer < 79; ++layer) {
    starts.insert(layout.latent_offset[layer]);
    if (layout.index_offset[layer] >= 0) {
      starts.insert(layout.index_offset[layer]);
      ++indexers;
    }
    EXPECT_EQ(layout.index_offset[layer] >= 0, config.has_indexer(static_cast<int64_t>(layer)));
  }
  EXPECT_EQ(indexers, 22);
  EXPECT_EQ(starts.size(), 79U + 22U);
  for (const int64_t start : starts) EXPECT_EQ(start % 64, 0);
}

TEST(PagedCache, EveryPageCanBeWrittenToItsEnd) {
  ModelConfig config = published();
  config.num_hidden_layers = 3;
  config.indexer_full.resize(3);
  config.mlp_sparse.resize(3);
  PagedCache cache(config, KvCacheDType::fp8, 5);
  EXPECT_EQ(cache.bytes(), 5 * cache.layout().page_bytes);
  std::memset(cache.views().latent[0].base, 0x5A, static_cast<size_t>(cache.bytes()));
  EXPECT_EQ(cache.views().index[0].format, ops::CacheFormat::fp8_keys);
}

}  // namespace
}  // namespace glint
