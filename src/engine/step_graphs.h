// The shapes of steps with few rows, each captured as a CUDA graph before the first request.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <optional>
#include <utility>

#include "engine/captured_graph.h"
#include "engine/cuda_device.h"

namespace glint {

class StepGraphs {
 public:
  explicit StepGraphs(CudaDevice& device);

  /// The shape that the step is filled up to (with graphs or without, so that both compute the same), or
  /// nothing: it has many rows, or wants the logits of some rows only.
  [[nodiscard]] std::optional<CudaDevice::Shape> shape_of(const StepDescription& step) const;

  /// Captures every shape, shortest contexts first, until the device has given `bytes_max` for graphs; the
  /// rest is launched kernel by kernel. Writes to page 0 of the cache: call before anything stands there.
  void capture_all(int64_t bytes_max);

  /// Launches the step that was placed for `shape`, inside the arena scope that is open now; nothing if that
  /// shape was not captured.
  std::optional<StepResult> launch(const CudaDevice::Shape& shape);

  [[nodiscard]] size_t count() const { return graphs_.size(); }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  struct Graph {
    CapturedGraph run;
    StepResult result;
  };

  StepResult forward(const Step& step);
  Graph capture(const Step& step);

  CudaDevice& device_;
  std::vector<int64_t> rows_, contexts_;                 // ascending
  std::map<std::pair<int64_t, int64_t>, Graph> graphs_;  // by context, rows
  int64_t bytes_ = 0;
};

}  // namespace glint
