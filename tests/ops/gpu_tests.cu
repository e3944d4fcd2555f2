// glint-gpu-tests: the CUDA operations against the CPU's definitions, on a machine with a GPU. Linked
// statically, so that the program can be carried there alone. Prints one line a test and, last, the counts;
// exits 1 if any failed, 77 if the machine has no GPU.
#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/cpu/kernels.h"
#include "ops/cuda/check.h"
#include "ops/cuda/decode_rows.h"

namespace {

using glint::Weight;
using glint::WeightFormat;
using glint::ops::cuda::check;

/// A copy of host bytes on the device.
class DeviceBytes {
 public:
  DeviceBytes(const void* host, size_t bytes) {
    check(cudaMalloc(&data_, bytes), "cudaMalloc");
    check(cudaMemcpy(data_, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

struct HostWeight {
  Weight view;
  std::vector<uint8_t> data, block_scale;
  std::vector<float> scale;
};

HostWeight random_weight(WeightFormat format, int64_t rows, int64_t cols, bool global_divides,
                         std::mt19937& random) {
  HostWeight w;
  const auto byte = [&] { return static_cast<uint8_t>(random()); };
  const int64_t values = rows * cols;
  const int64_t bytes = format == WeightFormat::f32     ? values * 4
                        : format == WeightFormat::bf16  ? values * 2
                        : format == WeightFormat::nvfp4 ? values / 2
                                                        : values;
  w.data.resize(static_cast<size_t>(bytes));
  for (uint8_t& b : w.data) b = byte();
  w.scale.resize(static_cast<size_t>((rows + 127) / 128 * ((cols + 127) / 128)));
  for (float& s : w.scale) s = 1e-4F + 1e-6F * static_cast<float>(random() % 1000);
  w.block_scale.resize(static_cast<size_t>(rows * (cols / 16)));
  for (uint8_t& b : w.block_scale) b = byte() & 0x7F;
  w.view = {.format = format,
            .rows = rows,
            .cols = cols,
            .data = w.data.data(),
            .scale = w.scale.data(),
            .block_scale = w.block_scale.data(),
            .global_scale = 0.037F,
            .global_divides = global_divides};
  return w;
}

/// Values that differ in any bit (two NaNs count as equal).
int64_t differing(const std::vector<float>& a, const std::vector<float>& b) {
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    count += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]);
  }
  return count;
}

bool decode_rows_agrees(WeightFormat format, int64_t rows, int64_t cols, bool global_divides) {
  std::mt19937 random(static_cast<uint32_t>(rows * 31 + cols));
  const HostWeight host = random_weight(format, rows, cols, global_divides, random);
  const DeviceBytes data(host.data.data(), host.data.size());
  const DeviceBytes scale(host.scale.data(), host.scale.size() * sizeof(float));
  const DeviceBytes block_scale(host.block_scale.data(), std::max<size_t>(1, host.block_scale.size()));
  Weight on_device = host.view;
  on_device.data = data.as<void>();
  on_device.scale = scale.as<void>();
  on_device.block_scale = block_scale.as<uint8_t>();
  const int64_t first = rows / 3;
  const int64_t count = rows - first;
  std::vector<float> expected(static_cast<size_t>(count * cols), -1.0F);
  std::vector<float> found = expected;
  glint::ops::cpu::kernels(glint::Isa::portable).decode_rows(host.view, first, count, expected.data(), cols);
  const DeviceBytes out(found.data(), found.size() * sizeof(float));
  glint::ops::cuda::decode_rows(on_device, first, count, out.as<float>(), cols, nullptr);
  check(cudaMemcpy(found.data(), out.as<float>(), found.size() * sizeof(float), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  return differing(expected, found) == 0;
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no CUDA device: nothing was tested");
    return 77;
  }
  struct Format {
    const char* name;
    WeightFormat format;
    bool global_divides;
  };
  const Format formats[] = {{"f32", WeightFormat::f32, false},
                            {"bf16", WeightFormat::bf16, false},
                            {"fp8_block", WeightFormat::fp8_block, false},
                            {"nvfp4", WeightFormat::nvfp4, false},
                            {"nvfp4 that divides", WeightFormat::nvfp4, true}};
  const int64_t shapes[][2] = {{1, 16}, {5, 48}, {576, 6144}, {129, 272}, {2048, 6144}, {448, 512}};
  int passed = 0;
  int failed = 0;
  for (const Format& format : formats) {
    for (const auto& shape : shapes) {
      const bool ok = decode_rows_agrees(format.format, shape[0], shape[1], format.global_divides);
      std::printf("%s decode_rows %s [%lld, %lld]\n", ok ? "ok  " : "FAIL", format.name,
                  static_cast<long long>(shape[0]), static_cast<long long>(shape[1]));
      ++(ok ? passed : failed);
    }
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
