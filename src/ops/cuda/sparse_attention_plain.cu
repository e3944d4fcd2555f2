// Attention for float32 and for sizes that the tensor-core kernel does not take: one block a row and head.
// float32 is the reference: its sums are float64.
#include <type_traits>

#include "ops/cuda/cache_rows.cuh"
#include "ops/cuda/check.h"
#include "ops/cuda/sparse_attention.h"

namespace glint::ops::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kSharedMax = 200 << 10;

template <class T>
__global__ void __launch_bounds__(kThreads) plain_kernel(SparseAttention a) {
  using Sum = std::conditional_t<sizeof(T) == 4, double, float>;
  extern __shared__ float shared[];
  __shared__ float reduced[kThreads / 32];
  const int64_t row = blockIdx.x;
  const int64_t head = blockIdx.y;
  const int width = static_cast<int>(a.cache.width);
  const int count = a.selection.count[row];
  const int32_t* list = a.selection.lists.data + row * a.selection.lists.cols;
  float* q = shared;
  float* scores = shared + width;
  const T* query = static_cast<const T*>(a.q.data) + row * a.q.stride + head * width;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) q[i] = load_value(query + i);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = static_cast<int>(threadIdx.x) / 32; i < count; i += kThreads / 32) {
    const int64_t page = page_of(a.rows, row, list[i]);
    Sum dot = 0;
    for (int d = lane; d < width; d += 32) {
      dot = fma(static_cast<Sum>(q[d]),
                static_cast<Sum>(cache_value(a.cache, page, list[i] % kPageTokens, d)), dot);
    }
    dot = warp_sum(dot);
    if (lane == 0) scores[i] = static_cast<float>(dot * static_cast<Sum>(a.scale));
  }
  __syncthreads();
  float largest = -INFINITY;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) largest = fmaxf(largest, scores[i]);
  largest = block_max<kThreads>(largest, reduced);
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    scores[i] = expf(scores[i] - largest);
    sum += scores[i];
  }
  sum = block_sum<kThreads>(sum, reduced);
  __syncthreads();
  T* out = static_cast<T*>(a.o.data) + row * a.o.stride + head * a.kv_lora;
  for (int d = static_cast<int>(threadIdx.x); d < a.kv_lora; d += kThreads) {
    Sum value = 0;
    for (int i = 0; i < count; ++i) {
      const int64_t page = page_of(a.rows, row, list[i]);
      value = fma(static_cast<Sum>(scores[i]),
                  static_cast<Sum>(cache_value(a.cache, page, list[i] % kPageTokens, d)), value);
    }
    out[d] = as_element<T>(static_cast<float>(value / static_cast<Sum>(sum)));
  }
}

}  // namespace

void prepare_attention_plain() {
  check(cudaFuncSetAttribute(plain_kernel<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedMax),
        "raising a kernel's shared memory");
  check(cudaFuncSetAttribute(plain_kernel<__nv_bfloat16>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kSharedMax),
        "raising a kernel's shared memory");
}

void attend_plain(const SparseAttention& a, ComputeDType dtype, cudaStream_t stream) {
  const int64_t bytes = (a.cache.width + a.selection.lists.cols) * 4;
  GLINT_CHECK(bytes <= kSharedMax);
  const dim3 grid(static_cast<unsigned>(a.q.rows), static_cast<unsigned>(a.heads));
  if (dtype == ComputeDType::bfloat16) {
    plain_kernel<__nv_bfloat16><<<grid, kThreads, static_cast<size_t>(bytes), stream>>>(a);
  } else {
    plain_kernel<float><<<grid, kThreads, static_cast<size_t>(bytes), stream>>>(a);
  }
  check(cudaGetLastError(), "launching attend_plain");
}

}  // namespace glint::ops::cuda
