// Random device memory for measurements.
#include "bench_model.h"
#include "ops/cuda/check.h"

namespace glint::gpu {

namespace {

using ops::cuda::check;

constexpr int kBlocks = 2048;
constexpr int kThreads = 256;

__device__ uint32_t mixed(uint64_t i) {
  i = (i + 0x9E3779B97F4A7C15ULL) * 0xBF58476D1CE4E5B9ULL;
  i = (i ^ (i >> 27)) * 0x94D049BB133111EBULL;
  return static_cast<uint32_t>(i >> 32);
}

/// Words of random bits with some bits cleared and some set.
__global__ void fill_kernel(uint32_t* data, int64_t words, uint32_t keep, uint32_t set) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += stride) {
    data[i] = (mixed(static_cast<uint64_t>(i)) & keep) | set;
  }
}

__global__ void fill_floats_kernel(std::byte* data, int64_t count, int64_t first, int64_t stride,
                                   int64_t each, float value) {
  const int64_t all = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count * each; i += all) {
    reinterpret_cast<float*>(data + i / each * stride + first)[i % each] = value;
  }
}

__global__ void copy_kernel(const uint4* from, uint4* to, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    to[i] = from[i];
}

void fill(void* data, int64_t bytes, uint32_t keep, uint32_t set, cudaStream_t stream) {
  fill_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<uint32_t*>(data), bytes / 4, keep, set);
  check(cudaGetLastError(), "filling memory");
}

}  // namespace

void copy_memory(const void* from, void* to, int64_t bytes, cudaStream_t stream) {
  constexpr int kThreadsOfCopy = 512;
  const int64_t count = bytes / 16;
  copy_kernel<<<static_cast<unsigned>((count + kThreadsOfCopy - 1) / kThreadsOfCopy), kThreadsOfCopy, 0,
                stream>>>(static_cast<const uint4*>(from), static_cast<uint4*>(to), count);
  check(cudaGetLastError(), "copying memory");
}

int64_t weight_bytes(WeightFormat format, int64_t rows, int64_t cols) {
  const int64_t values = rows * cols;
  switch (format) {
    case WeightFormat::f32:
      return values * 4;
    case WeightFormat::bf16:
      return values * 2;
    case WeightFormat::fp8_block:
      return values;
    case WeightFormat::nvfp4:
      return values / 2 + values / 16;
  }
  return 0;
}

void fill_random(void* data, int64_t bytes, cudaStream_t stream) {
  fill(data, bytes, 0xFFFFFFFFU, 0, stream);
}

void fill_weights(void* data, int64_t bytes, WeightFormat format, cudaStream_t stream) {
  if (format == WeightFormat::fp8_block) {
    fill(data, bytes, 0xB7B7B7B7U, 0, stream);  // exponents of at most 6: no NaN
  } else if (format == WeightFormat::bf16) {
    fill(data, bytes, 0x80FF80FFU, 0x3C003C00U, stream);  // magnitudes 2^-7 to 2^-5
  } else {
    fill(data, bytes, 0xFFFFFFFFU, 0, stream);
  }
}

void fill_scales(void* data, int64_t bytes, bool e4m3, cudaStream_t stream) {
  if (e4m3) {
    fill(data, bytes, 0x07070707U, 0x38383838U, stream);
  } else {
    fill(data, bytes, 0x007FFFFFU, 0x3B000000U, stream);  // 2^-9 to 2^-8
  }
}

void fill_fp8_rows(void* data, int64_t rows, cudaStream_t stream) {
  fill(data, rows * 656, 0xB7B7B7B7U, 0, stream);
  fill_floats_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<std::byte*>(data), rows, 512, 656, 4,
                                                       0.01F);
  check(cudaGetLastError(), "filling memory");
}

void fill_key_scales(void* data, int64_t pages, cudaStream_t stream) {
  fill_floats_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<std::byte*>(data), pages, 64 * 128,
                                                       64 * 132, 64, 0.0078125F);
  check(cudaGetLastError(), "filling memory");
}

}  // namespace glint::gpu
