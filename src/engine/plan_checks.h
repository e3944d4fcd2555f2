// What a plan refuses before it counts a byte, and the words of its refusals.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/config.h"
#include "engine/memory_plan.h"

namespace glint {

/// Throws bad_input for options that contradict each other or the model.
void check_engine_options(const EngineOptions& options, const ModelConfig& config);

/// Throws bad_input for a share that is none, or two ways to say the same thing.
void check_budget_flags(const EngineOptions& options);

/// Throws bad_input if less of the device is free than --gpu-memory-utilization asks for.
void check_free_memory(const EngineOptions& options, const DeviceMemory& device);

/// Throws bad_input if --indexer-scratch-bytes cannot hold the scores of one row of `context` keys.
void check_indexer_budget(const ModelConfig& config, const PlanRequest& request, int64_t context);

/// The flag that decided how large the cache may be, with its value, and what to do if that is not enough.
std::string budget_source(const EngineOptions& options);
std::string budget_advice(const PlanRequest& request);

/// "13.91".
std::string gib_text(int64_t bytes);

}  // namespace glint
