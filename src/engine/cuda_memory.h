// Memory of a CUDA device and of the host beside it, owned; and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "ops/cuda/check.h"

namespace glint {

/// One piece of device memory. Throws io if the device does not give it.
class DeviceBytes {
 public:
  DeviceBytes(const std::string& what, int64_t bytes) {
    const cudaError_t status = cudaMalloc(&data_, static_cast<size_t>(bytes > 0 ? bytes : 1));
    if (status != cudaSuccess) {
      fail(ErrorKind::io, what, ": the GPU does not give ", bytes, " bytes: ", cudaGetErrorString(status),
           "; if something else uses it, leave that some with --gpu-memory-utilization or "
           "--kv-cache-memory-bytes");
    }
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

/// Host memory that the device copies from and to by itself.
class PinnedBytes {
 public:
  explicit PinnedBytes(int64_t bytes) {
    ops::cuda::check(cudaMallocHost(&data_, static_cast<size_t>(bytes > 0 ? bytes : 1)),
                     "taking pinned memory");
  }
  ~PinnedBytes() { cudaFreeHost(data_); }
  PinnedBytes(const PinnedBytes&) = delete;
  PinnedBytes& operator=(const PinnedBytes&) = delete;
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

class DeviceStream {
 public:
  DeviceStream() {
    ops::cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  }
  ~DeviceStream() { cudaStreamDestroy(stream_); }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void wait() const { ops::cuda::check(cudaStreamSynchronize(stream_), "waiting for the device"); }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace glint
