#include "ops/cuda/check.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/device_math.cuh"

namespace glint::ops::cuda {

namespace {

template <class T>
__global__ void absorbed_kernel(Weight kv_b, int64_t heads, int64_t nope, int64_t v, T* out) {
  const int64_t kv_lora = kv_b.cols;
  const int64_t keys = heads * kv_lora * nope;
  const int64_t all = keys + heads * v * kv_lora;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < all; i += stride) {
    int64_t row;
    int64_t col;
    if (i < keys) {
      const int64_t head = i / (kv_lora * nope);
      row = head * (nope + v) + i % nope;
      col = i / nope % kv_lora;
    } else {
      const int64_t rest = i - keys;
      row = rest / kv_lora / v * (nope + v) + nope + rest / kv_lora % v;
      col = rest % kv_lora;
    }
    out[i] = as_element<T>(weight_value(kv_b, row, col));
  }
}

}  // namespace

void absorbed_layout(const Weight& kv_b, int64_t heads, int64_t nope, int64_t v, ComputeDType dtype,
                     void* out, cudaStream_t stream) {
  constexpr int kBlocks = 1024;
  constexpr int kThreads = 256;
  if (dtype == ComputeDType::bfloat16) {
    absorbed_kernel<<<kBlocks, kThreads, 0, stream>>>(kv_b, heads, nope, v, static_cast<__nv_bfloat16*>(out));
  } else {
    absorbed_kernel<<<kBlocks, kThreads, 0, stream>>>(kv_b, heads, nope, v, static_cast<float*>(out));
  }
  check(cudaGetLastError(), "launching absorbed_layout");
}

}  // namespace glint::ops::cuda
