// What the flags of a server ask of its engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/cpu_features.h"
#include "cache/paged_cache.h"
#include "engine/engine.h"
#include "engine/logprobs.h"
#include "ops/types.h"

namespace glint {

/// What only a GPU is asked.
struct CudaSettings {
  bool fp8_activations = true;   // FP8 weights meet E4M3 activations; false: bfloat16 ones, for comparisons
  bool batch_invariant = false;  // a row's bits do not depend on the other rows of its step
  bool graphs = true;            // steps of few rows are captured once and replayed
};

struct EngineOptions {
  ops::ComputeDType dtype = ops::ComputeDType::bfloat16;
  std::optional<KvCacheDType> kv_cache_dtype;  // absent: default_kv_cache_dtype
  Isa isa = best_isa();
  int threads = 0;  // 0: one per usable CPU
  int64_t max_model_len =
      0;  // prompt + output of one request; 0: the config's, or less if the cache is smaller
  bool allow_long_model_len = false;  // longer than the config's max_position_embeddings
  int64_t max_num_seqs = 16;          // running at once
  int64_t max_num_batched_tokens = 2048;
  bool prefix_caching = true;
  /// Drafts a sequence and step by the MTP layer, at most kSpeculativeTokensMax, or kSpeculativeTokensAuto.
  int64_t num_speculative_tokens = 0;
  int64_t indexer_scratch_bytes = 0;  // 0: the device's default

  // The cache's memory. At most one of the two shares; both give way to kv_cache_memory_bytes. Without any:
  // all that the plan leaves of a GPU; on the CPU what max_num_seqs requests of max_model_len may need, at
  // most 4 GiB.
  std::optional<double> gpu_memory_utilization;  // share of a device's total memory for everything
  std::optional<double> mem_fraction_static;     // share of its free memory for weights and cache
  int64_t kv_cache_memory_bytes = 0;             // on each device
  int64_t max_total_tokens = 0;                  // at most so many tokens; 0: no such limit
  QueueLimits queue;
  bool by_priority = false;  // see ServingOptions
  LogprobsMode logprobs_mode = LogprobsMode::raw_logprobs;
  std::filesystem::path kv_disk_dir;        // of the disk tier; empty: none
  int64_t kv_disk_bytes = 0;                // what it may take; with kv_disk_dir only
  std::chrono::microseconds idle_spin{50};  // as ServingOptions::idle_spin
  CudaSettings cuda;
};

/// The layers that a cache holds rows of: the MTP layer only if it runs.
ModelConfig cached_config(const ModelConfig& config, bool with_mtp);

/// The most drafts that a step may hold of a sequence. Chosen by the engine: what the step's rows leave room
/// for.
int64_t drafts_max(const EngineOptions& options);

/// What --kv-cache-dtype auto is on the CPU: float32 under float32, bfloat16 otherwise.
KvCacheDType default_kv_cache_dtype(ops::ComputeDType dtype);

}  // namespace glint
