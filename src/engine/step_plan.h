// What a step takes on one device of a plan.
#pragma once

#include <memory>

#include "base/threads.h"
#include "engine/memory_plan.h"
#include "model/model.h"

namespace glint {

/// Runs the forward pass of one rank of one stage on a measuring arena.
class StepPlanner {
 public:
  /// `layers` decoder layers from `first` on; the last stage has the head, and the MTP layer if the engine
  /// speculates.
  StepPlanner(const ModelConfig& config, const PlanRequest& request, int64_t first, int64_t layers,
              bool last);

  /// With sequences of up to `context` tokens.
  ops::StepMemory step(int64_t context);

 private:
  const PlanRequest& request_;
  bool last_;
  Model model_;
  std::unique_ptr<ThreadPool> pool_;  // of the CPU
};

/// The hidden states and index lists that stand between the drafts of a round.
int64_t hidden_carry_bytes(const ModelConfig& config, const EngineOptions& options, DeviceKind kind);

}  // namespace glint
