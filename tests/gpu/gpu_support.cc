#include "gpu_support.h"

#include <atomic>
#include <cfloat>
#include <limits>
#include <thread>

namespace glint::gpu {

namespace {
constexpr int64_t kSlabBytes = int64_t{6} << 30;
}

double TestWeight::value(int64_t row, int64_t col) const {
  const auto index = static_cast<size_t>(row * host.cols + col);
  switch (host.format) {
    case WeightFormat::f32:
      return static_cast<double>(load_unaligned<float>(data->data() + index * 4));
    case WeightFormat::bf16:
      return static_cast<double>(bf16_to_float(load_unaligned<uint16_t>(data->data() + index * 2)));
    case WeightFormat::fp8_block: {
      const int64_t blocks = (host.cols + 127) / 128;
      const float s = (*scale)[static_cast<size_t>(row / 128 * blocks + col / 128)];
      return static_cast<double>(e4m3_to_float((*data)[index]) * s);
    }
    case WeightFormat::nvfp4: {
      const uint8_t pair = (*data)[index / 2];
      const float code = kE2m1[col % 2 == 0 ? pair & 15 : pair >> 4];
      const float s = e4m3_to_float((*block_scale)[static_cast<size_t>(row * (host.cols / 16) + col / 16)]) *
                      host.global_scale;
      return static_cast<double>(code * s);
    }
  }
  return 0;
}

TestWeight random_weight(WeightFormat format, int64_t rows, int64_t cols, std::mt19937_64& random) {
  TestWeight w;
  const auto count = static_cast<size_t>(rows * cols);
  w.data = std::make_shared<std::vector<uint8_t>>();
  w.block_scale = std::make_shared<std::vector<uint8_t>>();
  w.scale = std::make_shared<std::vector<float>>();
  const double size = 1.0 / std::sqrt(static_cast<double>(cols));
  if (format == WeightFormat::f32 || format == WeightFormat::bf16) {
    const size_t bytes = format == WeightFormat::f32 ? 4 : 2;
    w.data->resize(count * bytes);
    parallel_random(rows * cols, random, [&](size_t first, size_t last, std::mt19937_64& own) {
      std::normal_distribution<float> normal(0.0F, static_cast<float>(size));
      for (size_t i = first; i < last; ++i) {
        const float value = normal(own);
        const uint16_t rounded = float_to_bf16(value);
        std::memcpy(w.data->data() + i * bytes, bytes == 4 ? static_cast<const void*>(&value) : &rounded,
                    bytes);
      }
    });
  } else if (format == WeightFormat::fp8_block) {
    w.data->resize(count);
    // Codes of normal values, and here and there any finite code.
    parallel_random(rows * cols, random, [&](size_t first, size_t last, std::mt19937_64& own) {
      std::normal_distribution<float> codes(0.0F, 60.0F);
      for (size_t i = first; i < last; ++i) {
        uint8_t& code = (*w.data)[i];
        code = float_to_e4m3(codes(own));
        if (own() % 64 == 0) code = static_cast<uint8_t>(own() % 127 | (own() & 128));
      }
    });
    w.scale->resize(static_cast<size_t>((rows + 127) / 128 * ((cols + 127) / 128)));
    for (float& s : *w.scale)
      s = static_cast<float>(size / 60 * (0.5 + static_cast<double>(random() % 1000) / 1000));
  } else {
    w.data->resize(count / 2);
    w.block_scale->resize(static_cast<size_t>(rows * (cols / 16)));
    parallel_random(rows * cols / 16, random, [&](size_t first, size_t last, std::mt19937_64& own) {
      for (size_t block = first; block < last; ++block) {
        for (size_t i = 0; i < 8; ++i) (*w.data)[8 * block + i] = static_cast<uint8_t>(own());
        (*w.block_scale)[block] = static_cast<uint8_t>(own() % 8 == 0 ? own() % 127 : 40 + own() % 40);
      }
    });
  }
  w.host = {.format = format,
            .rows = rows,
            .cols = cols,
            .data = w.data->data(),
            .scale = w.scale->data(),
            .block_scale = w.block_scale->data(),
            .global_scale = static_cast<float>(size / 4)};
  w.device = w.host;
  w.device_data = std::make_shared<DeviceArray<uint8_t>>(*w.data);
  w.device_scale = std::make_shared<DeviceArray<float>>(*w.scale);
  w.device_block_scale = std::make_shared<DeviceArray<uint8_t>>(*w.block_scale);
  w.device.data = w.device_data->data();
  w.device.scale = w.device_scale->data();
  w.device.block_scale = w.device_block_scale->data();
  return w;
}

Backend::Backend(ComputeDType dtype, const ops::cuda::CudaOptions& options, cudaStream_t stream)
    : dtype_(dtype), stream_(stream), owns_stream_(stream == nullptr) {
  check(cudaMalloc(&slab_, kSlabBytes), "cudaMalloc");
  check(cudaMemset(slab_, 0xFF, kSlabBytes), "cudaMemset");
  if (owns_stream_) check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  arena_ = std::make_unique<ops::Arena>(static_cast<std::byte*>(slab_), kSlabBytes);
  ops_ = ops::cuda::make_cuda_ops(dtype, *arena_, tables_, options, stream_);
  scope_.emplace(*arena_);
}

Backend::~Backend() {
  cudaStreamSynchronize(stream_);
  if (owns_stream_) cudaStreamDestroy(stream_);
  cudaFree(slab_);
}

void Backend::reset() {
  scope_.reset();
  scope_.emplace(*arena_);
}

std::vector<float> Backend::random_values(int64_t count, double spread, std::mt19937_64& random) const {
  std::vector<float> values(static_cast<size_t>(count));
  parallel_random(count, random, [&](size_t first, size_t last, std::mt19937_64& own) {
    std::normal_distribution<float> normal(0.0F, static_cast<float>(spread));
    for (size_t i = first; i < last; ++i) values[i] = bf16() ? round_to_bf16(normal(own)) : normal(own);
  });
  return values;
}

Activation Backend::put(const std::vector<float>& values, int64_t cols) {
  const Activation x = ops_->activation(static_cast<int64_t>(values.size()) / cols, cols);
  ops_->upload(values.data(), x);
  return x;
}

Floats Backend::put_floats(const std::vector<float>& values, int64_t cols) {
  const Floats x = ops_->floats(static_cast<int64_t>(values.size()) / cols, cols);
  check(cudaMemcpyAsync(x.data, values.data(), values.size() * 4, cudaMemcpyHostToDevice, stream_),
        "cudaMemcpy");
  check(cudaStreamSynchronize(stream_), "copying");
  return x;
}

Ints Backend::put_ints(const std::vector<int32_t>& values, int64_t cols) {
  const Ints x = ops_->ints(static_cast<int64_t>(values.size()) / cols, cols);
  ops_->upload(values.data(), x);
  return x;
}

Activation Backend::poisoned(int64_t rows, int64_t cols) {
  const Activation x = ops_->activation(rows, cols);
  check(cudaMemset(x.data, 0xFF, static_cast<size_t>(rows * cols * (bf16() ? 2 : 4))), "cudaMemset");
  check(cudaDeviceSynchronize(), "poisoning");
  return x;
}

Floats Backend::poisoned_floats(int64_t rows, int64_t cols) {
  const Floats x = ops_->floats(rows, cols);
  check(cudaMemset(x.data, 0xFF, static_cast<size_t>(rows * cols * 4)), "cudaMemset");
  check(cudaDeviceSynchronize(), "poisoning");
  return x;
}

std::vector<float> Backend::get(Activation x) {
  std::vector<float> values(static_cast<size_t>(x.rows * x.cols));
  ops_->download(x, values.data());
  return values;
}
std::vector<float> Backend::get(Floats x) {
  std::vector<float> values(static_cast<size_t>(x.rows * x.cols));
  ops_->download(x, values.data());
  return values;
}
std::vector<int32_t> Backend::get(Ints x) {
  std::vector<int32_t> values(static_cast<size_t>(x.rows * x.cols));
  ops_->download(x, values.data());
  return values;
}

void parallel(int64_t count, const std::function<void(int64_t)>& body) {
  std::atomic<int64_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (int64_t item = next++; item < count; item = next++) body(item);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void parallel_random(int64_t count, std::mt19937_64& random,
                     const std::function<void(size_t, size_t, std::mt19937_64&)>& body) {
  constexpr int64_t kPiece = 1 << 16;
  const uint64_t seed = random();
  parallel((count + kPiece - 1) / kPiece, [&](int64_t piece) {
    std::mt19937_64 own(seed + static_cast<uint64_t>(piece));
    body(static_cast<size_t>(piece * kPiece), static_cast<size_t>(std::min(count, (piece + 1) * kPiece)),
         own);
  });
}

double relative_error(const std::vector<float>& found, const std::vector<double>& expected) {
  expect(found.size() == expected.size(), found.size(), " values for ", expected.size());
  double gap = 0;
  double size = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double difference = static_cast<double>(found[i]) - expected[i];
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    gap += difference * difference;
    size += expected[i] * expected[i];
  }
  return std::sqrt(gap / std::max(size, 1e-300));
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  expect(a.size() == b.size(), what, ": sizes differ");
  for (size_t i = 0; i < a.size(); ++i) {
    expect(std::memcmp(&a[i], &b[i], 4) == 0, what, ": value ", i, " is ", a[i], " and ", b[i]);
  }
}

std::vector<double> fp8_activations(const std::vector<float>& x, int64_t cols) {
  std::vector<double> out(x.size());
  for (size_t row = 0; row < x.size() / static_cast<size_t>(cols); ++row) {
    for (int64_t first = 0; first < cols; first += 128) {
      const auto begin = row * static_cast<size_t>(cols) + static_cast<size_t>(first);
      const auto end = row * static_cast<size_t>(cols) + static_cast<size_t>(std::min(cols, first + 128));
      float largest = 0;
      for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(x[i]));
      const float scale = std::max(largest / 448.0F, FLT_MIN);
      for (size_t i = begin; i < end; ++i) {
        out[i] = static_cast<double>(e4m3_to_float(float_to_e4m3(x[i] / scale))) * static_cast<double>(scale);
      }
    }
  }
  return out;
}

}  // namespace glint::gpu
