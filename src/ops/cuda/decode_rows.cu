#include "ops/cuda/check.h"
#include "ops/cuda/decode_rows.h"
#include "ops/cuda/device_math.cuh"

namespace glint::ops::cuda {

namespace {

constexpr int kThreads = 256;
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
