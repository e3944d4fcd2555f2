#include "engine/cpu_executor.h"

#include "base/error.h"

namespace glint {

void StepDescription::clear() {
  tokens.clear();
  positions.clear();
  sequences.clear();
  pages.clear();
  logits_rows.clear();
  pages_stride = 0;
  context_max = 0;
}

void StepDescription::reserve(size_t rows, size_t page_numbers) {
  for (std::vector<int32_t>* part : {&tokens, &positions, &sequences, &logits_rows}) part->reserve(rows);
  pages.reserve(page_numbers);
}

void DraftDescription::reserve(size_t rows, size_t page_numbers) {
  step.reserve(rows, page_numbers);
  source.reserve(rows);
}

void DraftDescription::clear() {
  step.clear();
  source.clear();
  first = true;
}

CpuExecutor::CpuExecutor(std::unique_ptr<CpuDevice> device) : device_(std::move(device)) {
  const ModelConfig& model = config();
  if (model.n_routed_experts > 0) {
    expert_load_ = std::make_unique<HostExpertLoad>(model.layers_with_mtp(), model.n_routed_experts);
  }
}

float* CpuExecutor::execute(const StepDescription& description) {
  GLINT_CHECK(static_cast<int64_t>(description.tokens.size()) <= rows_max());
  round_.reset();
  step_scope_.reset();
  step_scope_.emplace(device_->arena());
  const StepResult result = device_->model().forward(device_->ops(), step_of(description),
                                                     device_->cache().views(), expert_load_.get());
  if (device_->options().with_mtp) round_.emplace(device_->model(), device_->ops(), result.final_hidden);
  return result.logits.data;
}

float* CpuExecutor::draft(const DraftDescription& draft) {
  GLINT_CHECK(round_.has_value());
  const Step step = step_of(draft.step);
  return draft.first ? round_->first(step, draft.source.data(), device_->cache().views())
                     : round_->later(step, draft.source.data(), device_->cache().views());
}

}  // namespace glint
