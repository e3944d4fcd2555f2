// Work on a stream that was captured once and is launched again and again, and the sizes that such work is
// made for.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "engine/cuda_memory.h"

namespace glint {

class CapturedGraph {
 public:
  /// Captures what `body` enqueues on `stream`; its kernels must have been loaded by an earlier launch.
  CapturedGraph(cudaStream_t stream, const std::function<void()>& body);
  ~CapturedGraph();
  CapturedGraph(CapturedGraph&& other) noexcept : run_(std::exchange(other.run_, nullptr)) {}
  CapturedGraph& operator=(CapturedGraph&&) = delete;
  void launch(cudaStream_t stream) const;

 private:
  cudaGraphExec_t run_ = nullptr;
};

/// Lengths of context that steps are filled up to, the last being `limit`.
std::vector<int64_t> context_sizes(int64_t limit);
/// Numbers of rows, or of sequences, that steps are filled up to, at most `most` and 128.
std::vector<int64_t> row_sizes(int64_t most);
/// The first of `sizes` that holds `wanted`.
std::optional<int64_t> first_that_holds(const std::vector<int64_t>& sizes, int64_t wanted);

/// Of the current device.
int64_t free_device_bytes();

}  // namespace glint
