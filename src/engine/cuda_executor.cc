#include "engine/cuda_executor.h"

#include <algorithm>

#include "base/error.h"
#include "engine/memory_plan.h"

namespace glint {

namespace {

constexpr int kSamplingThreads = 8;

int64_t logits_rows(const DeviceOptions& options) {
  return std::max<int64_t>(1, std::max(options.logits_max, options.drafting_max));
}

}  // namespace

CudaExecutor::CudaExecutor(std::unique_ptr<CudaDevice> device, bool graphs)
    : device_(std::move(device)),
      expert_load_(config().n_routed_experts > 0 ? std::make_unique<CudaExpertLoad>(*device_) : nullptr),
      graphs_(*device_),
      sampling_threads_(device_->options().threads > 0 ? device_->options().threads
                                                       : std::min(kSamplingThreads, usable_cpus())),
      host_logits_(logits_rows(device_->options()) * device_->model().config().vocab_size * 4) {
  if (device_->options().drafting_max > 0) {
    rounds_.emplace(*device_, expert_load_.get(), [this] {
      round_.reset();
      step_scope_.reset();
    });
  }
  warm_up();
  if (graphs) capture();
  if (expert_load_) expert_load_->clear();  // of what was launched to capture
}

/// The largest steps once, so that what the device takes for their kernels is taken now.
void CudaExecutor::warm_up() {
  if (rounds_) rounds_->warm_up();
  DraftDescription largest;
  StepDescription& step = largest.step;
  const auto rows = static_cast<size_t>(rows_max());
  for (std::vector<int32_t>* part : {&step.tokens, &step.positions, &step.sequences, &largest.source})
    part->assign(rows, 0);
  step.pages = {0};
  step.pages_stride = 1;
  step.context_max = 1;
  if (device_->options().logits_max > 0) step.logits_rows = {0};
  execute(step);
  if (device_->options().with_mtp && !step.logits_rows.empty()) draft(largest);
  round_.reset();
  step_scope_.reset();
}

void CudaExecutor::capture() {
  int64_t left = kGraphBytes;
  if (rounds_) {
    rounds_->capture_all(kGraphBytes * 2 / 3);
    left -= rounds_->bytes();
  }
  graphs_.capture_all(left);
}

void CudaExecutor::use_device() const {
  ops::cuda::check(cudaSetDevice(device_->ordinal()), "choosing the device");
}

float* CudaExecutor::bring(const float* logits, int64_t rows) {
  const int64_t bytes = rows * config().vocab_size * 4;
  GLINT_CHECK(rows <= logits_rows(device_->options()));
  if (bytes > 0) {
    ops::cuda::check(cudaMemcpyAsync(host_logits_.data(), logits, static_cast<size_t>(bytes),
                                     cudaMemcpyDeviceToHost, device_->stream().get()),
                     "copying logits");
  }
  device_->stream().wait();
  return reinterpret_cast<float*>(host_logits_.data());
}

StepResult CudaExecutor::run(const StepDescription& description) {
  const auto shape = graphs_.shape_of(description);
  const Step step = shape ? device_->place(description, *shape) : device_->place(description);
  if (shape) {
    if (const auto result = graphs_.launch(*shape)) return *result;
  }
  return device_->model().forward(device_->ops(), step, device_->caches());
}

float* CudaExecutor::execute(const StepDescription& description) {
  use_device();
  round_.reset();
  step_scope_.reset();
  step_scope_.emplace(device_->arena());
  const StepResult result = run(description);
  if (expert_load_) expert_load_->step_enqueued(static_cast<int64_t>(description.tokens.size()));
  if (device_->options().with_mtp) round_.emplace(device_->model(), device_->ops(), result.final_hidden);
  return bring(result.logits.data, static_cast<int64_t>(description.logits_rows.size()));
}

float* CudaExecutor::draft(const DraftDescription& draft) {
  GLINT_CHECK(round_.has_value());
  use_device();
  const Step step = device_->place(draft.step);
  const int32_t* source = device_->place_source(draft.source);
  const float* logits = draft.first ? round_->first(step, source, device_->caches())
                                    : round_->later(step, source, device_->caches());
  return bring(logits, step.logits_count);
}

}  // namespace glint
