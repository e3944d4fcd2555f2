#include "engine/cuda_executor.h"

#include <algorithm>

#include "base/error.h"

namespace glint {

namespace {

constexpr int64_t kGraphRowsMax = 64;
constexpr size_t kGraphsMax = 96;
constexpr int kSamplingThreads = 8;

int64_t logits_rows(const DeviceOptions& options) {
  return std::max<int64_t>(1, std::max(options.logits_max, options.drafting_max));
}

}  // namespace

CudaExecutor::CudaExecutor(std::unique_ptr<CudaDevice> device, bool graphs)
    : device_(std::move(device)),
      graphs_(graphs),
      sampling_threads_(device_->options().threads > 0 ? device_->options().threads
                                                       : std::min(kSamplingThreads, usable_cpus())),
      host_logits_(logits_rows(device_->options()) * device_->model().config().vocab_size * 4) {}

CudaExecutor::~CudaExecutor() {
  for (auto& [shape, graph] : shapes_) {
    if (graph.run != nullptr) cudaGraphExecDestroy(graph.run);
  }
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

StepResult CudaExecutor::run(const Step& step) {
  return device_->model().forward(device_->ops(), step, device_->caches());
}

StepResult CudaExecutor::run_captured(const Step& step) {
  const Shape shape{step.rows.rows, step.logits_count, step.rows.context_max};
  const bool small = step.rows.rows <= kGraphRowsMax;
  if (!graphs_ || !small || (shapes_.size() >= kGraphsMax && !shapes_.contains(shape))) return run(step);
  Graph& graph = shapes_[shape];
  if (graph.uses++ == 0) return run(step);
  cudaStream_t stream = device_->stream().get();
  if (graph.run == nullptr) {
    // The step's memory is laid out by its shape alone, so a replay finds everything in its place.
    ops::cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a step");
    graph.result = run(step);
    cudaGraph_t captured = nullptr;
    ops::cuda::check(cudaStreamEndCapture(stream, &captured), "capturing a step");
    ops::cuda::check(cudaGraphInstantiate(&graph.run, captured, 0), "making a graph");
    cudaGraphDestroy(captured);
  } else {
    // Takes the same memory again, for what follows the step.
    const int64_t before = device_->arena().used_bytes();
    device_->ops().activation(step.rows.rows, config().hidden_size);
    device_->ops().floats(step.logits_count, config().vocab_size);
    GLINT_CHECK(before == 0);
  }
  ops::cuda::check(cudaGraphLaunch(graph.run, stream), "launching a step");
  return graph.result;
}

float* CudaExecutor::execute(const StepDescription& description) {
  use_device();
  round_.reset();
  step_scope_.reset();
  step_scope_.emplace(device_->arena());
  const StepResult result = run_captured(device_->place(description));
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
