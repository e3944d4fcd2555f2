// Weights made on the device against those that the CPU makes and encodes, byte for byte.
#include "ops/cuda/standin.h"

#include <cmath>

#include "checkpoint/standin_values.h"
#include "gpu_support.h"
#include "tensor/encode.h"

namespace glint::gpu {

namespace {

struct Stored {
  std::vector<uint8_t> data, block_scale;
  std::vector<float> scale;
  float global_scale = 1;
};

Stored on_cpu(const StandinValues& values, WeightFormat format, int64_t rows, int64_t cols) {
  Stored out;
  const auto count = static_cast<size_t>(rows * cols);
  if (format == WeightFormat::bf16) {
    std::vector<uint16_t> bits(count);
    values.fill_bf16(0, bits);
    out.data.resize(2 * count);
    std::memcpy(out.data.data(), bits.data(), 2 * count);
    return out;
  }
  std::vector<float> wide(count);
  values.fill_rounded(0, wide);
  if (format == WeightFormat::fp8_block) {
    const int64_t blocks = (cols + 127) / 128;
    out.data.resize(count);
    out.scale.resize(static_cast<size_t>((rows + 127) / 128 * blocks));
    for (int64_t row = 0; row < rows; row += 128) {
      encode_fp8_band(wide.data() + row * cols, std::min<int64_t>(128, rows - row), cols,
                      out.data.data() + row * cols, out.scale.data() + row / 128 * blocks);
    }
    return out;
  }
  float largest = 0;
  for (const float value : wide) largest = std::max(largest, std::fabs(value));
  out.global_scale = nvfp4_global_scale(largest);
  out.data.resize(count / 2);
  out.block_scale.resize(count / 16);
  encode_nvfp4(wide.data(), static_cast<int64_t>(count), out.global_scale, out.data.data(),
               out.block_scale.data());
  return out;
}

void check_shape(WeightFormat format, int64_t rows, int64_t cols) {
  const StandinValues values(cat("model.layers.7.mlp.experts.", rows, ".down_proj.weight"), {rows, cols}, 3);
  const ops::cuda::StandinRule rule{values.key(), values.base(), values.spread()};
  const Stored expected = on_cpu(values, format, rows, cols);
  const DeviceArray<uint8_t> data(std::vector<uint8_t>(expected.data.size(), 0xEE));
  const DeviceArray<uint8_t> block_scale(std::vector<uint8_t>(expected.block_scale.size(), 0xEE));
  const DeviceArray<float> scale(std::vector<float>(expected.scale.size(), NAN));
  const DeviceArray<float> amax(std::vector<float>{0});
  Weight to{.format = format, .rows = rows, .cols = cols, .data = data.data()};
  to.scale = scale.data();
  to.block_scale = block_scale.data();
  if (format == WeightFormat::nvfp4) {
    ops::cuda::largest_standin(rule, rows * cols, amax.data(), nullptr);
    to.global_scale = nvfp4_global_scale(amax.host()[0]);
    expect(to.global_scale == expected.global_scale, rows, " x ", cols, ": another global scale");
  }
  ops::cuda::make_standin(rule, to, nullptr);
  check(cudaDeviceSynchronize(), "make_standin");
  expect(data.host() == expected.data, rows, " x ", cols, ": other values than the CPU's");
  expect(scale.host() == expected.scale, rows, " x ", cols, ": other scales than the CPU's");
  expect(block_scale.host() == expected.block_scale, rows, " x ", cols,
         ": other block scales than the CPU's");
}

void check_format(WeightFormat format) {
  check_shape(format, 2048, 6144);
  check_shape(format, 577, 1536);
  check_shape(format, 1, 16);
  check_shape(format, 300, 208);
  if (format == WeightFormat::nvfp4) return;
  check_shape(format, 3, 7);
  check_shape(format, 131, 1029);
}

const Register kAll[] = {
    {"standin bf16", [] { check_format(WeightFormat::bf16); }},
    {"standin fp8", [] { check_format(WeightFormat::fp8_block); }},
    {"standin nvfp4", [] { check_format(WeightFormat::nvfp4); }},
};

}  // namespace
}  // namespace glint::gpu
