// Which kernel takes a product.
#include "ops/cuda/matmul.h"

#include <atomic>

#include "ops/cuda/check.h"

namespace glint::ops::cuda {

namespace {
std::atomic<bool> device_is_hopper{false};
}

bool has_tensor_core_form(const Matmul& p) {
  const Weight& w = p.weight;
  switch (w.format) {
    case WeightFormat::bf16:
      return p.input == InputFormat::bfloat16 && w.cols % 8 == 0 && p.x_stride % 8 == 0 && p.x_batch % 8 == 0;
    case WeightFormat::nvfp4:
      return p.input == InputFormat::bfloat16 && w.cols % 32 == 0 && p.x_stride % 8 == 0 &&
             p.x_batch % 8 == 0;
    case WeightFormat::fp8_block:
      return p.input == InputFormat::fp8 && w.cols % 16 == 0 && p.x_stride % 16 == 0 && p.x_batch == 0 &&
             p.w_batch_rows == 0;
    case WeightFormat::f32:
      return false;
  }
  return false;
}

bool takes_hopper_form(const Matmul& p) {
  return device_is_hopper && !p.batch_invariant && has_hopper_form(p);
}

void multiply(const Matmul& p, cudaStream_t stream) {
  const int64_t rows = p.tiles.used == nullptr ? p.rows : p.tiles.tile_rows;
  if (!has_tensor_core_form(p)) {
    multiply_plain(p, stream);
  } else if (rows <= kSkinnyRowsMax) {
    multiply_skinny(p, stream);
  } else if (takes_hopper_form(p)) {
    multiply_hopper(p, stream);
  } else {
    multiply_tiled(p, stream);
  }
}

void prepare_matmul() {
  int device = 0;
  int major = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking for the device");
  prepare_skinny();
  prepare_tiled();
  device_is_hopper = major == 9;
  if (device_is_hopper) prepare_hopper();
}

}  // namespace glint::ops::cuda
