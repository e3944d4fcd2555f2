// Times of device work and a table of figures.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench_model.h"
#include "ops/cuda/check.h"

namespace glint::gpu {

using ops::cuda::check;

inline constexpr int64_t kColdBytes = int64_t{256} << 20;  // operands that are passed before one comes again

struct Figure {
  std::string name;
  double us = 0;
  double bytes = 0;  // least bytes moved
  double flops = 0;
};

class Bench {
 public:
  Bench() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"); }

  /// Median time of one call of body(i), i = 0, 1, ... naming the operands.
  double time_us(const std::function<void(int)>& body, int calls, int rounds = 9) {
    for (int i = 0; i < 2; ++i) body(i);
    check(cudaStreamSynchronize(stream_), "warming up");
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < calls; ++i) body(i);
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph), "capture");
    cudaGraphExec_t run = nullptr;
    check(cudaGraphInstantiate(&run, graph, 0), "graph");
    cudaEvent_t start = nullptr;
    cudaEvent_t end = nullptr;
    check(cudaEventCreate(&start), "event");
    check(cudaEventCreate(&end), "event");
    std::vector<double> times;
    for (int round = 0; round < rounds + 1; ++round) {
      check(cudaEventRecord(start, stream_), "event");
      check(cudaGraphLaunch(run, stream_), "launch");
      check(cudaEventRecord(end, stream_), "event");
      check(cudaEventSynchronize(end), "event");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, start, end), "event");
      if (round > 0) times.push_back(static_cast<double>(ms) * 1e3 / calls);
    }
    cudaGraphExecDestroy(run);
    cudaGraphDestroy(graph);
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  }

  void add(Figure figure) {
    const double rate = figure.bytes / figure.us / 1e6;
    const double tf = figure.flops / figure.us / 1e6;
    std::printf("%-58s %10.1f us", figure.name.c_str(), figure.us);
    if (figure.bytes > 0)
      std::printf("  %6.2f TB/s (%3.0f %% of copy)", rate, copy_ > 0 ? 100 * rate / copy_ : 0.0);
    if (figure.flops > 0) std::printf("  %6.1f TF", tf);
    std::printf("\n");
    std::fflush(stdout);
    Json one;
    one["name"] = figure.name;
    one["us"] = figure.us;
    if (figure.bytes > 0) one["terabytes_per_s"] = rate;
    if (figure.bytes > 0 && copy_ > 0) one["share_of_copy"] = rate / copy_;
    if (figure.flops > 0) one["teraflops"] = tf;
    all_.push_back(one);
  }

  /// Of work that the host takes part in.
  void add_host(const std::string& name, double seconds, double bytes) {
    const double rate = bytes / seconds / 1e9;
    std::printf("%-58s %10.3f s   %6.1f GB/s\n", name.c_str(), seconds, rate);
    std::fflush(stdout);
    all_.push_back(Json{{"name", name}, {"s", seconds}, {"gigabytes_per_s", rate}});
  }

  void copy() {
    constexpr int64_t kBytes = int64_t{4} << 30;
    void* a = nullptr;
    void* b = nullptr;
    check(cudaMalloc(&a, kBytes), "cudaMalloc");
    check(cudaMalloc(&b, kBytes), "cudaMalloc");
    fill_random(a, kBytes, stream_);
    const double us = time_us([&](int) { copy_memory(a, b, kBytes, stream_); }, 2, 5);
    copy_ = 2.0 * kBytes / us / 1e6;
    add({"device-to-device copy, bytes read and written", us, 2.0 * kBytes, 0});
    cudaFree(a);
    cudaFree(b);
  }

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] const Json& all() const { return all_; }

 private:
  cudaStream_t stream_ = nullptr;
  double copy_ = 0;
  Json all_ = Json::array();
};

/// Device memory of random bytes that make finite weights.
struct Slab {
  explicit Slab(int64_t bytes) { check(cudaMalloc(&data, static_cast<size_t>(bytes)), "cudaMalloc"); }
  ~Slab() { cudaFree(data); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  [[nodiscard]] std::byte* at(int64_t offset) const { return static_cast<std::byte*>(data) + offset; }
  void* data = nullptr;
};

}  // namespace glint::gpu
