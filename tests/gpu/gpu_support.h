// Random operands on host and device, and a backend around them.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/numeric.h"
#include "harness.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_ops.h"

namespace glint::gpu {

using ops::Activation;
using ops::ComputeDType;
using ops::Floats;
using ops::Ints;
using ops::cuda::check;

/// Values on the device that came from the host.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& host) : size_(host.size()) {
    check(cudaMalloc(&data_, std::max<size_t>(16, size_ * sizeof(T))), "cudaMalloc");
    check(cudaMemcpy(data_, host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  [[nodiscard]] T* data() const { return static_cast<T*>(data_); }
  [[nodiscard]] std::vector<T> host() const {
    std::vector<T> values(size_);
    check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

/// A weight on both sides. `value` decodes on the host by definition.
struct TestWeight {
  Weight host, device;
  std::shared_ptr<std::vector<uint8_t>> data, block_scale;
  std::shared_ptr<std::vector<float>> scale;
  std::shared_ptr<DeviceArray<uint8_t>> device_data, device_block_scale;
  std::shared_ptr<DeviceArray<float>> device_scale;

  [[nodiscard]] double value(int64_t row, int64_t col) const;
};
/// Values of about 1 / sqrt(cols) in size, every finite code in use.
TestWeight random_weight(WeightFormat format, int64_t rows, int64_t cols, std::mt19937_64& random);

/// A backend on the device with its own arena; results are read back as floats.
class Backend {
 public:
  /// On `stream`, or on one of its own.
  explicit Backend(ComputeDType dtype, const ops::cuda::CudaOptions& options = {},
                   cudaStream_t stream = nullptr);
  ~Backend();
  [[nodiscard]] ops::Ops& ops() { return *ops_; }
  [[nodiscard]] bool bf16() const { return dtype_ == ComputeDType::bfloat16; }
  ops::cuda::ExpertTables& tables() { return tables_; }
  ops::Arena& arena() { return *arena_; }

  /// Random normal values on the compute type's grid, and their place on the device (until reset()).
  std::vector<float> random_values(int64_t count, double spread, std::mt19937_64& random) const;
  Activation put(const std::vector<float>& values, int64_t cols);
  Floats put_floats(const std::vector<float>& values, int64_t cols);
  Ints put_ints(const std::vector<int32_t>& values, int64_t cols);
  /// Outputs full of NaN.
  Activation poisoned(int64_t rows, int64_t cols);
  Floats poisoned_floats(int64_t rows, int64_t cols);
  std::vector<float> get(Activation x);
  std::vector<float> get(Floats x);
  std::vector<int32_t> get(Ints x);
  /// Gives all places back.
  void reset();

 private:
  ComputeDType dtype_;
  void* slab_ = nullptr;
  cudaStream_t stream_ = nullptr;
  bool owns_stream_ = false;
  ops::cuda::ExpertTables tables_;
  std::unique_ptr<ops::Arena> arena_;
  std::optional<ops::Arena::Scope> scope_;
  std::unique_ptr<ops::Ops> ops_;
};

/// body(i) for i in [0, count) on all CPUs.
void parallel(int64_t count, const std::function<void(int64_t)>& body);

/// body(first, last, generator) for pieces of [0, count) on all CPUs, each with a generator of its own that
/// `random` seeds.
void parallel_random(int64_t count, std::mt19937_64& random,
                     const std::function<void(size_t, size_t, std::mt19937_64&)>& body);

/// ||found - expected|| / ||expected||; infinite if a value is not finite.
double relative_error(const std::vector<float>& found, const std::vector<double>& expected);

/// Throws unless the two are equal bit for bit.
void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const std::string& what);

/// The quantised activations that the device's FP8 products see: E4M3 with a scale for each 128 columns.
std::vector<double> fp8_activations(const std::vector<float>& x, int64_t cols);

}  // namespace glint::gpu
