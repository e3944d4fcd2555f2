// Operands of one product for NVIDIA's libraries, and what the result should be.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "bench.h"
#include "gpu_support.h"

namespace glint::gpu {

/// What is multiplied: bfloat16; or E4M3 with a float32 scale for each 128 columns of a row of x and each
/// block of 128 x 128 of W (the checkpoint's form); or E4M3 with one scale a row.
enum class PeerForm { bf16, fp8_blocks, fp8_rows };

struct PeerShape {
  const char* name;
  int64_t rows, cols;  // of W
};
inline constexpr PeerShape kPeerShapes[] = {
    {"o_proj", 6144, 16384}, {"q_b", 16384, 2048}, {"gate, dense", 12288, 6144}, {"q_a", 2048, 6144}};

/// y = x W^T, y in bfloat16 [m][n]. W lies there several times, so that it is never in the cache.
class PeerProduct {
 public:
  PeerProduct(PeerForm form, int64_t m, int64_t n, int64_t k, cudaStream_t stream);

  [[nodiscard]] int copies() const { return copies_; }
  [[nodiscard]] const std::byte* w(int copy) const { return w_.at(copy * w_bytes()); }
  [[nodiscard]] const uint8_t* x() const { return x_->data(); }
  [[nodiscard]] uint16_t* y() const { return y_.data(); }
  /// fp8_blocks: [k / 128][m] and [n / 128][k / 128]; fp8_rows: [m] and [n].
  [[nodiscard]] const float* x_scales() const { return x_scales_.data(); }
  [[nodiscard]] const float* w_scales() const { return w_scales_.data(); }

  /// Fills y with NaN.
  void poison();
  /// The relative error of samples of y, made with w(0), against float64.
  [[nodiscard]] double error() const;

  PeerForm form;
  int64_t m, n, k;

 private:
  [[nodiscard]] int64_t w_bytes() const { return n * k * (form == PeerForm::bf16 ? 2 : 1); }
  [[nodiscard]] double x_value(int64_t row, int64_t col) const;
  [[nodiscard]] double w_value(int64_t row, int64_t col) const;

  int copies_;
  Slab w_;
  std::vector<uint8_t> host_x_, host_w_;
  std::vector<float> host_x_scales_, host_w_scales_;
  std::unique_ptr<DeviceArray<uint8_t>> x_;
  DeviceArray<float> x_scales_, w_scales_;
  DeviceArray<uint16_t> y_;
};

/// Checks what run(copy) puts into y, then times it and adds the figure under `name`. Nothing is timed that
/// is wrong.
void add_peer(Bench& bench, const std::string& name, PeerProduct& product,
              const std::function<void(int)>& run);

}  // namespace glint::gpu
