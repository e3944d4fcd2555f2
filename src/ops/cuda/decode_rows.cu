#include <cuda_bf16.h>

#include "ops/cuda/check.h"
#include "ops/cuda/decode_rows.h"

namespace glint::ops::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kScaleBlock = 128;
constexpr int64_t kGroup = 16;

// E4M3 to float32, all 256 codes. The seven exponent and mantissa bits, moved to a float's place, are the
// value times 2^-120, subnormals included; the product is exact.
__device__ float e4m3_value(uint8_t code) {
  const uint32_t magnitude = code & 0x7FU;
  const float value = magnitude == 0x7FU ? __uint_as_float(0x7FC00000U)
                                         : __fmul_rn(__uint_as_float(magnitude << 20), 0x1p120F);
  return (code & 0x80U) != 0 ? -value : value;
}

__device__ float e2m1_value(uint32_t code) {
  constexpr float kMagnitudes[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float value = kMagnitudes[code & 7U];
  return (code & 8U) != 0 ? -value : value;
}

__device__ float weight_value(const Weight& w, int64_t row, int64_t col) {
  const int64_t index = row * w.cols + col;
  switch (w.format) {
    case WeightFormat::f32:
      return static_cast<const float*>(w.data)[index];
    case WeightFormat::bf16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(w.data)[index]);
    case WeightFormat::fp8_block: {
      const int64_t blocks = (w.cols + kScaleBlock - 1) / kScaleBlock;
      const float scale = static_cast<const float*>(w.scale)[row / kScaleBlock * blocks + col / kScaleBlock];
      return __fmul_rn(e4m3_value(static_cast<const uint8_t*>(w.data)[index]), scale);
    }
    case WeightFormat::nvfp4: {
      const uint32_t pair = static_cast<const uint8_t*>(w.data)[index / 2];
      const float block = e4m3_value(w.block_scale[row * (w.cols / kGroup) + col / kGroup]);
      const float scale =
          w.global_divides ? __fdiv_rn(block, w.global_scale) : __fmul_rn(block, w.global_scale);
      return __fmul_rn(e2m1_value(col % 2 == 0 ? pair & 15U : pair >> 4), scale);
    }
  }
  return 0.0F;
}

__global__ void decode_rows_kernel(Weight w, int64_t row, int64_t values, float* out, int64_t ldo) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < values; i += stride) {
    out[i / w.cols * ldo + i % w.cols] = weight_value(w, row + i / w.cols, i % w.cols);
  }
}

}  // namespace

void decode_rows(const Weight& W, int64_t row, int64_t count, float* out, int64_t ldo, cudaStream_t stream) {
  const int64_t values = count * W.cols;
  if (values == 0) return;
  constexpr int64_t kBlocksMax = 1 << 16;
  const int64_t blocks = (values + kThreads - 1) / kThreads;
  decode_rows_kernel<<<static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax), kThreads, 0,
                       stream>>>(W, row, values, out, ldo);
  check(cudaGetLastError(), "launching decode_rows");
}

}  // namespace glint::ops::cuda
