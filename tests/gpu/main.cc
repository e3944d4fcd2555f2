// glint-gpu-tests [--list] [--small] [NAME ...]: runs the tests whose names contain one of the given texts,
// or all; --small leaves out wide shapes and most repetitions within a test. Exits 1 if any failed, 77 if
// this machine has no GPU.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "harness.h"
#include "ops/cuda/cuda_ops.h"

namespace glint::gpu {

namespace {

bool wanted(const std::string& name, int count, char** texts) {
  if (count == 0) return true;
  for (int i = 0; i < count; ++i) {
    if (name.find(texts[i]) != std::string::npos) return true;
  }
  return false;
}

int run(int count, char** texts) {
  int passed = 0;
  int failed = 0;
  for (const Test& test : tests()) {
    if (!wanted(test.name, count, texts)) continue;
    take_notes();
    const auto start = std::chrono::steady_clock::now();
    std::string failure;
    try {
      test.body();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    std::printf("%s %s (%.1f s)%s%s%s\n", failure.empty() ? "ok  " : "FAIL", test.name.c_str(), taken.count(),
                take_notes().c_str(), failure.empty() ? "" : ": ", failure.c_str());
    std::fflush(stdout);
    ++(failure.empty() ? passed : failed);
    if (cudaPeekAtLastError() != cudaSuccess && cudaDeviceSynchronize() != cudaSuccess) {
      std::puts("the device's context is broken: ending");
      return 1;
    }
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace

}  // namespace glint::gpu

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const glint::gpu::Test& test : glint::gpu::tests()) std::puts(test.name.c_str());
    return 0;
  }
  const bool small = argc > 1 && std::strcmp(argv[1], "--small") == 0;
  glint::gpu::small_shapes() = small;
  const int names = small ? 2 : 1;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no CUDA device: nothing was tested");
    return 77;
  }
  glint::ops::cuda::prepare_kernels();
  return glint::gpu::run(argc - names, argv + names);
}
