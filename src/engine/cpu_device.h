// The CPU as a device: threads, step memory, cache and model in one place, ready to execute described steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/cpu_features.h"
#include "base/threads.h"
#include "cache/paged_cache.h"
#include "engine/engine_options.h"
#include "model/model.h"
#include "ops/arena.h"
#include "ops/step_meter.h"

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
  int64_t indexer_scratch_bytes = 0;  // 0: ops::cpu::kIndexerScratchBytes
  int64_t step_bytes = 0;             // as planned; 0: planned here
};

/// What an engine's steps need of a device for sequences of up to `context` tokens. Without the head (a
/// pipeline stage before the last) no logits are wanted and nothing drafts.
DeviceOptions step_options(const EngineOptions& options, int64_t context, bool with_head);

/// What a step's temporaries take, by running the step on the measuring arena of `ops`.
ops::StepMemory planned_step(const Model& model, const DeviceOptions& options, ops::Ops& ops);
/// The same with the CPU's operations on `pool`, of which only the size matters.
ops::StepMemory planned_step(const Model& model, const DeviceOptions& options, ThreadPool& pool);

class CpuDevice {
 public:
  /// Takes all memory: after this, executing steps within the options' limits takes no more.
  CpuDevice(std::shared_ptr<const Model> model, const DeviceOptions& options);
  ~CpuDevice();
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  [[nodiscard]] const DeviceOptions& options() const { return options_; }
  [[nodiscard]] const Model& model() const { return *model_; }
  [[nodiscard]] ops::Ops& ops() { return *ops_; }
  [[nodiscard]] ThreadPool& threads() { return pool_; }
  [[nodiscard]] ops::Arena& arena() { return arena_; }
  [[nodiscard]] PagedCache& cache() { return cache_; }
  [[nodiscard]] int64_t step_bytes() const { return step_bytes_; }
  [[nodiscard]] int64_t cache_bytes() const { return cache_.bytes(); }

 private:
  std::shared_ptr<const Model> model_;
  DeviceOptions options_;
  ThreadPool pool_;
  int64_t step_bytes_;
  std::byte* slab_;
  ops::Arena arena_;
  PagedCache cache_;
  std::unique_ptr<ops::Ops> ops_;
};

}  // namespace glint
