// Random weights for measurements, and a model of the real width with a few layers.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "tensor/weight.h"

namespace glint::gpu {

int64_t weight_bytes(WeightFormat format, int64_t rows, int64_t cols);

/// Fill device memory with random values: any bits; finite weights of the format; scales of about 2^-9 (or
/// E4M3 scales of about 1); the scales and rotated parts of 656-byte rows; the scales of pages of index keys.
void copy_memory(const void* from, void* to, int64_t bytes, cudaStream_t stream);
void fill_random(void* data, int64_t bytes, cudaStream_t stream);
void fill_weights(void* data, int64_t bytes, WeightFormat format, cudaStream_t stream);
void fill_scales(void* data, int64_t bytes, bool e4m3, cudaStream_t stream);
void fill_fp8_rows(void* data, int64_t rows, cudaStream_t stream);
void fill_key_scales(void* data, int64_t pages, cudaStream_t stream);

class BenchModel {
 public:
  /// One dense and `sparse` MoE layers of GLM-5.3 in FP8 with a small vocabulary, on the device.
  BenchModel(int64_t sparse, cudaStream_t stream);
  ~BenchModel();
  /// Median time of a step without the head's copy to the host.
  double decode_us(int64_t sequences, int64_t context);
  double prefill_us(int64_t rows);
  /// What making all weights on the device took, by the host's clock, the launches included.
  [[nodiscard]] double made_us() const;
  [[nodiscard]] double made_bytes() const;
  /// The least that such a step reads, the head apart; experts by what uniform routing would touch.
  [[nodiscard]] double decode_bytes(int64_t sequences, int64_t context) const;
  [[nodiscard]] double prefill_flops(int64_t rows) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace glint::gpu
