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

float* CpuExecutor::execute(const StepDescription& description) {
  GLINT_CHECK(static_cast<int64_t>(description.tokens.size()) <= rows_max());
  scope_.reset();
  scope_.emplace(device_->arena());
  const Step step{.tokens = description.tokens.data(),
                  .rows = {.rows = static_cast<int64_t>(description.tokens.size()),
                           .position = description.positions.data(),
                           .sequence = description.sequences.data(),
                           .pages = description.pages.data(),
                           .pages_stride = description.pages_stride,
                           .context_max = description.context_max},
                  .logits_rows = description.logits_rows.data(),
                  .logits_count = static_cast<int64_t>(description.logits_rows.size())};
  const StepResult result = device_->model().forward(device_->ops(), step, device_->cache().views());
  return result.logits.data;
}

}  // namespace glint
