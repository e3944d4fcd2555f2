// The device that a command computes on (the flag --device), whether or not this program was built with CUDA.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "engine/device_memory.h"
#include "engine/engine_options.h"
#include "engine/executor.h"
#include "engine/step_device.h"

namespace glint {

struct DeviceChoice {
  DeviceKind kind = DeviceKind::cpu;
  int ordinal = 0;  // of a GPU
};

/// "cpu", "cuda" or "cuda:N". Throws bad_input with the reason alone.
DeviceChoice parse_device(std::string_view text);

/// The same of the flag --device, which errors then name.
DeviceChoice device_flag(std::string_view text);

/// What the chosen device is and has. A GPU becomes the calling thread's. Throws unsupported, in one line, if
/// there is none or this program was built without CUDA.
DeviceMemory open_device(const DeviceChoice& choice);

/// Copies the weights of `host` to the GPU (`progress` as of CudaWeights, may be null) and takes all memory
/// that the steps and the cache need there. Throws unsupported for float32, which is computed for traces
/// alone.
std::unique_ptr<Executor> make_cuda_executor(const std::shared_ptr<const Model>& host,
                                             const DeviceOptions& options, int ordinal,
                                             const CudaSettings& settings,
                                             const std::function<bool(int64_t, int64_t)>& progress);

/// For TraceSettings::make_device: devices that share one copy of a model's weights. Null for the CPU.
std::function<std::unique_ptr<StepDevice>(const std::shared_ptr<const Model>&, const DeviceOptions&)>
trace_devices(const DeviceChoice& choice, const CudaSettings& settings);

}  // namespace glint
