#include "engine/step_plan.h"

#include "engine/cpu_device.h"
#include "ops/declared_ops.h"
#include "parallel/rank_config.h"

namespace glint {

namespace {

ModelWeights rank_weights(const ModelConfig& config, const PlanRequest& request, int64_t first,
                          int64_t layers, bool last) {
  const bool mtp = last && request.engine.num_speculative_tokens != 0;
  return planned_weights(rank_config(config, request.layout, first, layers, mtp), request.format);
}

}  // namespace

StepPlanner::StepPlanner(const ModelConfig& config, const PlanRequest& request, int64_t first, int64_t layers,
                         bool last)
    : request_(request), last_(last), model_([&] {
        ModelWeights weights = rank_weights(config, request, first, layers, last);
        ForwardRules rules = rules_of(weights.config);
        return Model(std::move(weights), std::move(rules));
      }()) {
  if (request.device.kind == DeviceKind::cpu) pool_ = std::make_unique<ThreadPool>(request.engine.threads);
}

ops::StepMemory StepPlanner::step(int64_t context) {
  const DeviceOptions options = step_options(request_.engine, context, last_);
  if (pool_) return planned_step(model_, options, *pool_);
  ops::Arena arena;
  ops::DeclaredLimits limits;
  if (request_.engine.indexer_scratch_bytes > 0) {
    limits.indexer_scratch_bytes = request_.engine.indexer_scratch_bytes;
  }
  ops::DeclaredOps ops(arena, limits);
  return planned_step(model_, options, ops);
}

int64_t hidden_carry_bytes(const ModelConfig& config, const EngineOptions& options, DeviceKind kind) {
  const auto aligned = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
  const int64_t rows = options.max_num_seqs;
  const int64_t element = kind == DeviceKind::cpu ? 4 : 2;
  return 2 * (aligned(rows * config.hidden_size * element) + aligned(rows * config.index_topk * 4) +
              aligned(rows * 4));
}

}  // namespace glint
