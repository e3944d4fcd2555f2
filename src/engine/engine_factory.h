// From a checkpoint to a running engine: the memory plan, the device, the loop.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/cpu_features.h"
#include "cache/paged_cache.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "ops/types.h"

namespace glint {

struct EngineOptions {
  ops::ComputeDType dtype = ops::ComputeDType::bfloat16;
  std::optional<KvCacheDType> kv_cache_dtype;  // absent: default_kv_cache_dtype
  Isa isa = best_isa();
  int threads = 0;  // 0: one per usable CPU
  int64_t max_model_len =
      0;  // prompt + output of one request; 0: the config's, or less if the cache is smaller
  int64_t max_num_seqs = 16;  // running at once
  int64_t max_num_batched_tokens = 2048;
  bool prefix_caching = true;
  /// Drafts a sequence and step by the MTP layer, at most kSpeculativeTokensMax, or kSpeculativeTokensAuto.
  int64_t num_speculative_tokens = 0;
  bool by_priority = false;  // see ServingOptions
  LogprobsMode logprobs_mode = LogprobsMode::raw_logprobs;
  int64_t kv_cache_memory_bytes =
      0;  // 0: what max_num_seqs requests of max_model_len may need, at most 4 GiB
  QueueLimits queue;
  std::filesystem::path kv_disk_dir;        // of the disk tier; empty: none
  int64_t kv_disk_bytes = 0;                // what it may take; with kv_disk_dir only
  std::chrono::microseconds idle_spin{50};  // as ServingOptions::idle_spin
};

/// What the plan came to.
struct EnginePlan {
  int64_t max_model_len = 0;
  int64_t cache_pages = 0;
  int64_t cache_bytes = 0;
  int64_t step_bytes = 0;
  int64_t weight_bytes = 0;  // as they lie in the files; mapped, not copied
};

/// Works the plan out. Throws bad_input with the numbers and the flag to change if it cannot hold, for
/// example if one request of max_model_len does not fit the cache, or if the plan exceeds the machine's
/// available memory.
EnginePlan plan_engine(const Checkpoint& checkpoint, const EngineOptions& options);

/// Binds the weights, takes the plan's memory and starts the loop.
std::unique_ptr<Engine> make_engine(std::shared_ptr<const Checkpoint> checkpoint,
                                    std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options,
                                    OutputSink sink);

}  // namespace glint
