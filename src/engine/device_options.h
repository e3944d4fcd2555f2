// What a device is made for: types, and the most that one step may hold.
#pragma once

#include <cstdint>
#include <optional>

#include "base/cpu_features.h"
#include "cache/paged_cache.h"
#include "ops/types.h"

namespace glint {

struct DeviceOptions {
  ops::ComputeDType dtype = ops::ComputeDType::bfloat16;
  std::optional<KvCacheDType> kv_cache_dtype;  // absent: default_kv_cache_dtype
  Isa isa = best_isa();
  int threads = 0;                    // 0: one per usable CPU
  int64_t rows_max = 2048;            // rows of one step
  int64_t logits_max = 64;            // rows of one step whose logits are wanted
  int64_t context_max = 0;            // tokens of one sequence; 0: the config's max_position_embeddings
  int64_t pages = 1;                  // of the cache
  bool with_mtp = false;              // steps of the MTP layer will run
  int64_t drafting_max = 0;           // sequences that draft in one step; 0: logits_max
  int64_t drafts_max = 0;             // of a sequence in one step
  bool drafts_vary = false;           // from step to step, between 0 and drafts_max
  int64_t indexer_scratch_bytes = 0;  // 0: ops::cpu::kIndexerScratchBytes
  int64_t step_bytes = 0;             // as planned; 0: planned here
};

}  // namespace glint
