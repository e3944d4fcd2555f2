// Executes steps on a CpuDevice.
#pragma once

#include <memory>
#include <optional>

#include "engine/cpu_device.h"
#include "engine/executor.h"
#include "engine/expert_load.h"
#include "model/draft_round.h"

namespace glint {

class CpuExecutor final : public Executor {
 public:
  explicit CpuExecutor(std::unique_ptr<CpuDevice> device);

  [[nodiscard]] const ModelConfig& config() const override { return device_->model().config(); }
  [[nodiscard]] int64_t pages_total() const override { return device_->options().pages; }
  [[nodiscard]] int64_t rows_max() const override { return device_->options().rows_max; }
  float* execute(const StepDescription& description) override;
  float* draft(const DraftDescription& draft) override;
  PageMemory* page_memory() override { return &device_->cache(); }
  [[nodiscard]] const ExpertLoad* expert_load() const override { return expert_load_.get(); }
  ThreadPool* threads() override { return &device_->threads(); }

 private:
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<HostExpertLoad> expert_load_;
  std::optional<ops::Arena::Scope> step_scope_;  // keeps the last step's hidden states and logits
  std::optional<DraftRound> round_;              // the drafting that follows it
};

}  // namespace glint
