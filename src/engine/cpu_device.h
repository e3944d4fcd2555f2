// The CPU as a device: threads, step memory, cache and model in one place, ready to execute described steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/cpu_features.h"
#include "base/threads.h"
#include "cache/paged_cache.h"
#include "engine/device_options.h"
#include "engine/engine_options.h"
#include "engine/step_device.h"
#include "model/model.h"
#include "ops/arena.h"
#include "ops/step_meter.h"

namespace glint {

/// What an engine's steps need of a device for sequences of up to `context` tokens. Without the head (a
/// pipeline stage before the last) no logits are wanted and nothing drafts.
DeviceOptions step_options(const EngineOptions& options, int64_t context, bool with_head);

/// What a step's temporaries take, by running the step on the measuring arena of `ops`.
ops::StepMemory planned_step(const Model& model, const DeviceOptions& options, ops::Ops& ops);
/// The same with the CPU's operations on `pool`, of which only the size matters.
ops::StepMemory planned_step(const Model& model, const DeviceOptions& options, ThreadPool& pool);

/// The description as the CPU takes it; a view of it.
Step step_of(const StepDescription& description);

class CpuDevice final : public StepDevice {
 public:
  /// Takes all memory: after this, executing steps within the options' limits takes no more.
  CpuDevice(std::shared_ptr<const Model> model, const DeviceOptions& options);
  ~CpuDevice() override;
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  [[nodiscard]] const DeviceOptions& options() const override { return options_; }
  [[nodiscard]] const Model& model() const override { return *model_; }
  [[nodiscard]] ops::Ops& ops() override { return *ops_; }
  [[nodiscard]] ThreadPool& threads() { return pool_; }
  [[nodiscard]] ops::Arena& arena() override { return arena_; }
  [[nodiscard]] const ModelCaches& caches() const override { return cache_.views(); }
  Step place(const StepDescription& description) override { return step_of(description); }
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
