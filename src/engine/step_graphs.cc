#include "engine/step_graphs.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/log.h"

namespace glint {

namespace {

/// A step of `rows` equal rows at the first position of a sequence on page 0.
StepDescription first_step(int64_t rows) {
  StepDescription step;
  const auto count = static_cast<size_t>(rows);
  step.tokens.assign(count, 0);
  step.positions.assign(count, 0);
  step.sequences.assign(count, 0);
  step.pages = {0};
  step.pages_stride = 1;
  step.context_max = 1;
  for (int32_t row = 0; row < rows; ++row) step.logits_rows.push_back(row);
  return step;
}

}  // namespace

StepGraphs::StepGraphs(CudaDevice& device)
    : device_(device),
      rows_(row_sizes(std::min(device.options().rows_max, device.options().logits_max))),
      contexts_(context_sizes(device.context_limit())) {}

std::optional<CudaDevice::Shape> StepGraphs::shape_of(const StepDescription& step) const {
  if (step.tokens.empty() || step.logits_rows.size() != step.tokens.size()) return std::nullopt;
  const auto rows = first_that_holds(rows_, static_cast<int64_t>(step.tokens.size()));
  const auto context = first_that_holds(contexts_, step.context_max);
  if (!rows || !context) return std::nullopt;
  return CudaDevice::Shape{.rows = *rows, .context = *context};
}

StepResult StepGraphs::forward(const Step& step) {
  return device_.model().forward(device_.ops(), step, device_.caches());
}

StepGraphs::Graph StepGraphs::capture(const Step& step) {
  // The step's memory is laid out by its shape alone, so a replay finds everything in its place.
  const ops::Arena::Scope scope(device_.arena());
  StepResult result;
  CapturedGraph run(device_.stream().get(), [&] { result = forward(step); });
  return {.run = std::move(run), .result = result};
}

void StepGraphs::capture_all(int64_t bytes_max) {
  const auto begin = std::chrono::steady_clock::now();
  GLINT_CHECK(device_.arena().used_bytes() == 0);
  for (const int64_t rows : rows_) {  // kernels are loaded by their first launch
    const ops::Arena::Scope scope(device_.arena());
    forward(device_.place(first_step(rows), {rows, contexts_.back()}));
    device_.stream().wait();
  }
  const int64_t free_before = free_device_bytes();
  for (const int64_t context : contexts_) {
    for (const int64_t rows : rows_) {
      if (bytes_ > bytes_max) break;
      // What is captured depends on the shape alone, so the numbers of a first step do.
      graphs_.emplace(std::pair(context, rows), capture(device_.place(first_step(rows), {rows, context})));
      device_.stream().wait();
      bytes_ = free_before - free_device_bytes();
    }
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  log_info("Captured ", graphs_.size(), " of ", rows_.size() * contexts_.size(),
           " step shapes as CUDA graphs in ", static_cast<int64_t>(taken.count() * 1000),
           " ms: ", bytes_ >> 20, " MiB of the planned ", bytes_max >> 20, " MiB");
}

std::optional<StepResult> StepGraphs::launch(const CudaDevice::Shape& shape) {
  const auto at = graphs_.find({shape.context, shape.rows});
  if (at == graphs_.end()) return std::nullopt;
  // Takes the memory that the capture took, for what follows the step.
  GLINT_CHECK(device_.arena().used_bytes() == 0);
  device_.ops().activation(shape.rows, device_.model().config().hidden_size);
  device_.ops().floats(shape.rows, device_.model().config().vocab_size);
  at->second.run.launch(device_.stream().get());
  return at->second.result;
}

}  // namespace glint
