// From a checkpoint to a running engine: the memory plan, the device, the loop.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "engine/memory_plan.h"

namespace glint {

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

/// The stored form of an opened checkpoint.
CheckpointFormat stored_format(const Checkpoint& checkpoint);

/// Puts something between an engine and its executor; for tests.
using ExecutorWrap = std::function<std::unique_ptr<Executor>(std::unique_ptr<Executor>)>;
/// Called now and then while weights are loaded, with (done_bytes, total_bytes); false stops (throws io).
using WeightsProgress = std::function<bool(int64_t, int64_t)>;

/// Binds the weights, takes the memory of `plan`, which is of this machine, and starts the loop. The weights
/// of a GPU are read and copied here, with `progress`.
std::unique_ptr<Engine> make_engine(std::shared_ptr<const Checkpoint> checkpoint,
                                    std::shared_ptr<const Tokenizer> tokenizer, const MemoryPlan& plan,
                                    OutputSink sink, const ExecutorWrap& wrap = nullptr,
                                    const WeightsProgress& progress = nullptr);

/// The same with a plan made here.
std::unique_ptr<Engine> make_engine(std::shared_ptr<const Checkpoint> checkpoint,
                                    std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options,
                                    OutputSink sink, const ExecutorWrap& wrap = nullptr);

}  // namespace glint
