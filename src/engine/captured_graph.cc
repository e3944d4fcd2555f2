#include "engine/captured_graph.h"

#include <algorithm>

namespace glint {

namespace {

// Every size costs memory and time at the start, and what a step is filled up with costs time in each step.
constexpr int64_t kRows[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
constexpr int64_t kContextMin = 4096;
constexpr int64_t kContextFactor = 8;

}  // namespace

CapturedGraph::CapturedGraph(cudaStream_t stream, const std::function<void()>& body) {
  ops::cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a step");
  body();
  cudaGraph_t captured = nullptr;
  ops::cuda::check(cudaStreamEndCapture(stream, &captured), "capturing a step");
  const cudaError_t made = cudaGraphInstantiate(&run_, captured, 0);
  cudaGraphDestroy(captured);
  ops::cuda::check(made, "making a graph");
  ops::cuda::check(cudaGraphUpload(run_, stream), "bringing a graph to the device");
}

CapturedGraph::~CapturedGraph() {
  if (run_ != nullptr) cudaGraphExecDestroy(run_);
}

void CapturedGraph::launch(cudaStream_t stream) const {
  ops::cuda::check(cudaGraphLaunch(run_, stream), "launching a step");
}

std::vector<int64_t> context_sizes(int64_t limit) {
  std::vector<int64_t> sizes;
  for (int64_t context = kContextMin; context < limit; context *= kContextFactor) sizes.push_back(context);
  sizes.push_back(limit);
  return sizes;
}

std::vector<int64_t> row_sizes(int64_t most) {
  std::vector<int64_t> sizes;
  for (const int64_t rows : kRows) {
    if (rows <= most) sizes.push_back(rows);
  }
  return sizes;
}

std::optional<int64_t> first_that_holds(const std::vector<int64_t>& sizes, int64_t wanted) {
  const auto at = std::lower_bound(sizes.begin(), sizes.end(), wanted);
  return at == sizes.end() ? std::nullopt : std::optional(*at);
}

int64_t free_device_bytes() {
  size_t free = 0;
  size_t total = 0;
  ops::cuda::check(cudaMemGetInfo(&free, &total), "asking for the device's memory");
  return static_cast<int64_t>(free);
}

}  // namespace glint
