// Executes steps on a CudaDevice. Logits come back to the host, where tokens are sampled; rounds need no such
// way back.
#pragma once

#include <memory>
#include <optional>

#include "engine/cuda_device.h"
#include "engine/cuda_expert_load.h"
#include "engine/cuda_rounds.h"
#include "engine/executor.h"
#include "engine/step_graphs.h"
#include "model/draft_round.h"

namespace glint {

class CudaExecutor final : public Executor {
 public:
  /// Rounds, and other steps of few rows, are filled up to few shapes, which are captured as graphs now if
  /// `graphs` (CudaRounds, StepGraphs) and launched kernel by kernel otherwise: both give the same bits.
  /// After this nothing is allocated on the device.
  CudaExecutor(std::unique_ptr<CudaDevice> device, bool graphs);

  [[nodiscard]] const ModelConfig& config() const override { return device_->model().config(); }
  [[nodiscard]] int64_t pages_total() const override { return device_->options().pages; }
  [[nodiscard]] int64_t rows_max() const override { return device_->options().rows_max; }
  float* execute(const StepDescription& description) override;
  float* draft(const DraftDescription& draft) override;
  RoundRunner* rounds() override { return rounds_ ? &*rounds_ : nullptr; }
  PageMemory* page_memory() override { return &device_->cache(); }
  [[nodiscard]] const ExpertLoad* expert_load() const override { return expert_load_.get(); }
  ThreadPool* threads() override { return &sampling_threads_; }

  [[nodiscard]] CudaDevice& device() { return *device_; }

 private:
  void capture();
  void use_device() const;
  void warm_up();
  StepResult run(const StepDescription& description);
  float* bring(const float* logits, int64_t rows);

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaExpertLoad> expert_load_;  // null: a model without experts
  std::optional<CudaRounds> rounds_;             // none without sequences that decode
  StepGraphs graphs_;
  ThreadPool sampling_threads_;
  PinnedBytes host_logits_;
  std::optional<ops::Arena::Scope> step_scope_;  // keeps the last step's hidden states and logits
  std::optional<DraftRound> round_;              // the drafting that follows it
};

}  // namespace glint
