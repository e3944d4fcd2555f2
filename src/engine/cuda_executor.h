// Executes steps on a CudaDevice. Logits come back to the host, where tokens are sampled.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "engine/cuda_device.h"
#include "engine/executor.h"
#include "model/draft_round.h"

namespace glint {

class CudaExecutor final : public Executor {
 public:
  /// Steps of few rows are captured as graphs the second time that one of their shape (rows, logits, context
  /// rounded up) comes, and replayed from then on, unless `graphs` is false. Both give the same bits.
  CudaExecutor(std::unique_ptr<CudaDevice> device, bool graphs);
  ~CudaExecutor() override;

  [[nodiscard]] const ModelConfig& config() const override { return device_->model().config(); }
  [[nodiscard]] int64_t pages_total() const override { return device_->options().pages; }
  [[nodiscard]] int64_t rows_max() const override { return device_->options().rows_max; }
  float* execute(const StepDescription& description) override;
  float* draft(const DraftDescription& draft) override;
  PageMemory* page_memory() override { return &device_->cache(); }
  ThreadPool* threads() override { return &sampling_threads_; }

  [[nodiscard]] CudaDevice& device() { return *device_; }

 private:
  using Shape = std::tuple<int64_t, int64_t, int64_t>;  // rows, logits, context
  struct Graph {
    int uses = 0;
    cudaGraphExec_t run = nullptr;
    StepResult result;
  };

  void use_device() const;
  StepResult run(const Step& step);
  StepResult run_captured(const Step& step);
  float* bring(const float* logits, int64_t rows);

  std::unique_ptr<CudaDevice> device_;
  bool graphs_;
  ThreadPool sampling_threads_;
  PinnedBytes host_logits_;
  std::optional<ops::Arena::Scope> step_scope_;  // keeps the last step's hidden states and logits
  std::optional<DraftRound> round_;              // the drafting that follows it
  std::map<Shape, Graph> shapes_;
};

}  // namespace glint
