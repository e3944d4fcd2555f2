// A program with CUDA: what the rest of the engine asks of it (device_choice.h).
#include <chrono>
#include <cstdio>

#include "base/log.h"
#include "engine/cuda_executor.h"
#include "engine/device_choice.h"

namespace glint {

namespace {

ops::cuda::CudaOptions cuda_options(const CudaSettings& settings) {
  ops::cuda::CudaOptions options;
  options.fp8_activations = settings.fp8_activations;
  options.batch_invariant = settings.batch_invariant;
  return options;
}

void log_weights(int64_t bytes, std::chrono::duration<double> taken) {
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  char text[128];
  std::snprintf(text, sizeof text, "Weights on the GPU: %.2f GB in %.2f s, %.1f GB/s", gigabytes,
                taken.count(), gigabytes / taken.count());
  log_info(text);
}

}  // namespace

DeviceMemory open_device(const DeviceChoice& choice) {
  return choice.kind == DeviceKind::gpu ? choose_cuda_device(choice.ordinal) : this_machine();
}

std::unique_ptr<Executor> make_cuda_executor(const std::shared_ptr<const Model>& host,
                                             const DeviceOptions& options, int ordinal,
                                             const CudaSettings& settings,
                                             const std::function<bool(int64_t, int64_t)>& progress) {
  if (options.dtype != ops::ComputeDType::bfloat16) {
    fail(ErrorKind::unsupported,
         "--dtype float32: a GPU serves bfloat16 alone (glint trace computes float32 there); "
         "use --dtype bfloat16 or --device cpu");
  }
  choose_cuda_device(ordinal);
  const auto begin = std::chrono::steady_clock::now();
  auto weights = std::make_shared<const CudaWeights>(*host, options.dtype, progress);
  log_weights(weights->bytes(), std::chrono::steady_clock::now() - begin);
  return std::make_unique<CudaExecutor>(
      std::make_unique<CudaDevice>(std::move(weights), options, cuda_options(settings)), settings.graphs);
}

std::function<std::unique_ptr<StepDevice>(const std::shared_ptr<const Model>&, const DeviceOptions&)>
trace_devices(const DeviceChoice& choice, const CudaSettings& settings) {
  if (choice.kind == DeviceKind::cpu) return nullptr;
  choose_cuda_device(choice.ordinal);
  struct Shared {
    std::shared_ptr<const Model> host;
    std::shared_ptr<const CudaWeights> weights;
    ops::ComputeDType dtype{};
  };
  return [shared = std::make_shared<Shared>(), settings](const std::shared_ptr<const Model>& host,
                                                         const DeviceOptions& options) {
    if (shared->host != host || shared->dtype != options.dtype) {
      shared->weights = std::make_shared<const CudaWeights>(*host, options.dtype);
      shared->host = host;
      shared->dtype = options.dtype;
    }
    return std::make_unique<CudaDevice>(shared->weights, options, cuda_options(settings));
  };
}

}  // namespace glint
