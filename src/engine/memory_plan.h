// The static memory plan: every byte of every device, before any weight is read.
//
// It is worked out from config.json and the flags alone. What a step takes is found by running the forward
// pass on a measuring arena (ops/arena.h): on the CPU with the operations themselves, for GPUs with what
// their operations declare (ops/declared_ops.h). An engine allocates what the plan says and nothing after it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/plan.h"
#include "engine/device_memory.h"
#include "engine/engine_options.h"
#include "ops/step_meter.h"
#include "parallel/pipeline.h"
#include "parallel/shares.h"

namespace glint {

/// What a plan keeps of a GPU for captured steps; capturing stops there.
inline constexpr int64_t kGraphBytes = int64_t{600} << 20;

struct PlanRequest {
  CheckpointFormat format = CheckpointFormat::bf16;
  DeviceMemory device;
  RankLayout layout;
  int64_t pipeline_parallel = 1;
  PipelinePartition partition;     // empty: balanced_partition by weights and cache
  bool strict_boundaries = false;  // refuse a stage that begins on a shared layer
  EngineOptions engine;
};

struct PlanPart {
  std::string name;
  int64_t bytes = 0;
};

int64_t sum_of(const std::vector<PlanPart>& parts);

/// Bytes that a page of 64 tokens, or a token, takes in the layers of one stage.
struct CacheBytes {
  int64_t latent = 0, index = 0;          // decoder layers
  int64_t mtp_latent = 0, mtp_index = 0;  // the MTP layer

  [[nodiscard]] int64_t all_latent() const { return latent + mtp_latent; }
  [[nodiscard]] int64_t all_index() const { return index + mtp_index; }
  [[nodiscard]] int64_t total() const { return all_latent() + all_index(); }
};

/// One device; all ranks of a pipeline stage are alike.
struct StagePlan {
  int64_t first_layer = 0, layers = 0;
  bool has_mtp = false;
  std::vector<PlanPart> weights;      // by part of the model
  std::vector<PlanPart> speculation;  // the MTP layer's weights, the embedding's copy
  std::vector<PlanPart> fixed;        // of a GPU: context, graphs, communication
  ops::StepMemory step;               // activations and the operations' workspace, overlapped by lifetime
  int64_t hidden_carry_bytes = 0;     // inside the step: hidden states and lists between drafts
  CacheBytes page;                    // not striped
  CacheBytes token;                   // not striped, without the rounding up of a page's parts
  std::vector<PlanPart> cache;        // as taken: latent rows, index keys, the MTP layer's
  int64_t budget_bytes = 0;           // what the flags and the parts above leave for the cache
  int64_t free_bytes = 0;             // of the device, after everything

  [[nodiscard]] int64_t used_without_cache() const {
    return sum_of(weights) + sum_of(speculation) + sum_of(fixed) + step.peak_bytes;
  }
};

struct MemoryPlan {
  PlanRequest request;
  PipelinePartition partition;
  std::vector<StagePlan> stages;
  int64_t pages = 0;          // of 64 tokens, all ranks together
  int64_t max_model_len = 0;  // of one request
  bool length_is_automatic = false;
  std::array<int64_t, 3>
      tokens_by_striping{};        // what would fit with each CacheStriping over all ranks of a stage
  std::vector<std::string> notes;  // one line each, for the log

  [[nodiscard]] int64_t tokens() const;
  /// Requests of max_model_len that fit together.
  [[nodiscard]] double concurrency() const;
};

/// Works the plan out. Throws bad_input with the numbers and the flag to change if it cannot hold. On a CPU
/// the parallel sizes are checked, and the plan is of one process that computes all ranks (a note says so).
MemoryPlan plan_memory(const ModelConfig& config, const PlanRequest& request);

/// The request of `glint serve` on this machine.
PlanRequest cpu_request(CheckpointFormat format, const EngineOptions& options);

}  // namespace glint
