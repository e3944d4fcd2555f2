// A program without CUDA: what it says when it is asked for a GPU.
#include "base/error.h"
#include "engine/device_choice.h"

namespace glint {

namespace {

[[noreturn]] void refuse() {
  fail(ErrorKind::unsupported,
       "argument --device: this glint was built without CUDA (cmake -DGLINT_CUDA=ON, with nvcc 13, builds it "
       "in); use --device cpu");
}

}  // namespace

DeviceMemory open_device(const DeviceChoice& choice) {
  if (choice.kind == DeviceKind::gpu) refuse();
  return this_machine();
}

std::unique_ptr<Executor> make_cuda_executor(const std::shared_ptr<const Model>& /*host*/,
                                             const DeviceOptions& /*options*/, int /*ordinal*/,
                                             const CudaSettings& /*settings*/,
                                             const std::function<bool(int64_t, int64_t)>& /*progress*/) {
  refuse();
}

std::function<std::unique_ptr<StepDevice>(const std::shared_ptr<const Model>&, const DeviceOptions&)>
trace_devices(const DeviceChoice& choice, const CudaSettings& /*settings*/) {
  if (choice.kind == DeviceKind::gpu) refuse();
  return nullptr;
}

}  // namespace glint
