#include <cmath>
#include <type_traits>

#include "ops/cuda/check.h"
#include "ops/cuda/device_math.cuh"
#include "ops/cuda/overlap.cuh"
#include "ops/cuda/rows.h"

namespace glint::ops::cuda {

namespace {

constexpr int kThreads = 256;

/// A view with typed elements.
template <class T>
struct Rows {
  T* data;
  int64_t rows, cols, stride;
  __device__ T* at(int64_t row) const { return data + row * stride; }
};

template <class T>
Rows<T> typed(Activation x) {
  return {static_cast<T*>(x.data), x.rows, x.cols, x.stride};
}
Rows<float> typed(Floats x) {
  return {x.data, x.rows, x.cols, x.stride};
}

/// Calls body(bfloat16 or float value) by the compute type.
template <class Body>
void with_element(ComputeDType dtype, const Body& body) {
  if (dtype == ComputeDType::bfloat16) {
    body(__nv_bfloat16{});
  } else {
    body(0.0F);
  }
}

/// Blocks for one thread an element; rows in x (2^31 - 1 of them), columns in y.
dim3 element_grid(int64_t rows, int64_t cols) {
  return {static_cast<unsigned>(rows), static_cast<unsigned>((cols + kThreads - 1) / kThreads)};
}
__device__ int64_t element_col() {
  return static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
}

template <class T>
__global__ void embed_kernel(const int32_t* ids, Weight table, Rows<T> y) {
  const int64_t row = blockIdx.x;
  const int64_t col = element_col();
  if (col < y.cols) y.at(row)[col] = as_element<T>(weight_value(table, ids[row], col));
}

template <class T>
__global__ void rms_norm_kernel(Rows<const T> x, const float* weight, float eps, Rows<T> y) {
  __shared__ float shared[kThreads / 32];
  const T* in = x.at(blockIdx.x);
  T* out = y.at(blockIdx.x);
  float squares = 0;
  for (int64_t i = threadIdx.x; i < x.cols; i += kThreads) {
    const float value = load_value(in + i);
    squares = __fmaf_rn(value, value, squares);
  }
  const float mean = block_sum<kThreads>(squares, shared) / static_cast<float>(x.cols);
  const float factor = 1.0F / sqrtf(mean + eps);
  for (int64_t i = threadIdx.x; i < x.cols; i += kThreads) {
    out[i] = as_element<T>(weight[i] * (load_value(in + i) * factor));
  }
}

template <class T>
__global__ void layer_norm_kernel(Rows<const T> x, const float* weight, const float* bias, float eps,
                                  Rows<T> y) {
  __shared__ float shared[kThreads / 32];
  const T* in = x.at(blockIdx.x);
  T* out = y.at(blockIdx.x);
  const auto count = static_cast<float>(x.cols);
  float sum = 0;
  for (int64_t i = threadIdx.x; i < x.cols; i += kThreads) sum += load_value(in + i);
  const float mean = block_sum<kThreads>(sum, shared) / count;
  float squares = 0;
  for (int64_t i = threadIdx.x; i < x.cols; i += kThreads) {
    const float gap = load_value(in + i) - mean;
    squares = __fmaf_rn(gap, gap, squares);
  }
  const float factor = 1.0F / sqrtf(block_sum<kThreads>(squares, shared) / count + eps);
  for (int64_t i = threadIdx.x; i < x.cols; i += kThreads) {
    out[i] = as_element<T>(weight[i] * ((load_value(in + i) - mean) * factor) + bias[i]);
  }
}

struct RopeTable {
  float inverse[kRopePairsMax];
  int half;
  int near;     // distance of neighbouring pairs
  int partner;  // distance inside a pair
};

// One block a row; every thread turns pairs of several heads.
template <class T>
__global__ void rope_kernel(Rows<T> x, int heads, int64_t head_dim, int64_t first, RopeTable table,
                            const int32_t* position) {
  __shared__ float cosines[kRopePairsMax];
  __shared__ float sines[kRopePairsMax];
  const int64_t row = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x); i < table.half; i += kThreads) {
    const float angle = __fmul_rn(static_cast<float>(position[row]), table.inverse[i]);
    sincosf(angle, &sines[i], &cosines[i]);
  }
  __syncthreads();
  T* values = x.at(row) + first;
  for (int pair = static_cast<int>(threadIdx.x); pair < heads * table.half; pair += kThreads) {
    const int i = pair % table.half;
    T* a = values + pair / table.half * head_dim + static_cast<int64_t>(table.near) * i;
    T* b = a + table.partner;
    const float x0 = load_value(a);
    const float x1 = load_value(b);
    *a = as_element<T>(__fsub_rn(__fmul_rn(x0, cosines[i]), __fmul_rn(x1, sines[i])));
    *b = as_element<T>(__fadd_rn(__fmul_rn(x1, cosines[i]), __fmul_rn(x0, sines[i])));
  }
}

template <class T>
__global__ void swiglu_kernel(Rows<const T> gate, Rows<const T> up, Rows<T> y) {
  let_next_start();
  wait_for_earlier();
  const int64_t row = blockIdx.x;
  const int64_t col = element_col();
  if (col >= y.cols) return;
  const float g = load_value(gate.at(row) + col);
  y.at(row)[col] = as_element<T>(g / (1.0F + expf(-g)) * load_value(up.at(row) + col));
}

template <class Y, class X>
__global__ void add_kernel(Rows<const Y> y, Rows<X> x) {
  const int64_t row = blockIdx.x;
  const int64_t col = element_col();
  if (col >= x.cols) return;
  X* target = x.at(row) + col;
  *target = as_element<X>(load_value(target) + load_value(y.at(row) + col));
}

template <class From, class To>
__global__ void gather_kernel(Rows<const From> x, const int32_t* rows, Rows<To> y) {
  const int64_t row = blockIdx.x;
  const int64_t col = element_col();
  if (col >= y.cols) return;
  y.at(row)[col] = as_element<To>(load_value(x.at(rows == nullptr ? row : rows[row]) + col));
}

__global__ void gather_selection_kernel(Selection x, const int32_t* rows, Selection y) {
  const int64_t row = blockIdx.x;
  const int64_t from = rows[row];
  const int32_t count = x.count[from];
  if (threadIdx.x == 0) y.count[row] = count;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += kThreads) {
    y.lists.data[row * y.lists.cols + i] = x.lists.data[from * x.lists.cols + i];
  }
}

template <class T>
__global__ void copy_rope_part_kernel(Rows<const T> q, int64_t heads, int64_t nope, int64_t rope,
                                      int64_t kv_lora, Rows<T> y) {
  const int64_t row = blockIdx.x;
  for (int64_t i = threadIdx.x; i < heads * rope; i += kThreads) {
    const int64_t head = i / rope;
    y.at(row)[head * (kv_lora + rope) + kv_lora + i % rope] =
        q.at(row)[head * (nope + rope) + nope + i % rope];
  }
}

template <class T>
Rows<const T> constant(Rows<T> x) {
  return {x.data, x.rows, x.cols, x.stride};
}

void launched(const char* what) {
  check(cudaGetLastError(), what);
}

}  // namespace

void embed(const int32_t* ids, const Weight& table, Activation y, ComputeDType dtype, cudaStream_t stream) {
  with_element(dtype, [&](auto element) {
    using T = decltype(element);
    embed_kernel<T><<<element_grid(y.rows, y.cols), kThreads, 0, stream>>>(ids, table, typed<T>(y));
  });
  launched("launching embed");
}

void rms_norm(Activation x, const float* weight, float eps, Activation y, ComputeDType dtype,
              cudaStream_t stream) {
  with_element(dtype, [&](auto element) {
    using T = decltype(element);
    rms_norm_kernel<T><<<static_cast<unsigned>(x.rows), kThreads, 0, stream>>>(constant(typed<T>(x)), weight,
                                                                               eps, typed<T>(y));
  });
  launched("launching rms_norm");
}

void layer_norm(Activation x, const float* weight, const float* bias, float eps, Activation y,
                ComputeDType dtype, cudaStream_t stream) {
  with_element(dtype, [&](auto element) {
    using T = decltype(element);
    layer_norm_kernel<T><<<static_cast<unsigned>(x.rows), kThreads, 0, stream>>>(
        constant(typed<T>(x)), weight, bias, eps, typed<T>(y));
  });
  launched("launching layer_norm");
}

void rope(Activation x, int64_t heads, int64_t head_dim, int64_t first, int64_t dim, double theta,
          RopePairs pairs, const int32_t* position, ComputeDType dtype, cudaStream_t stream) {
  RopeTable table{};
  table.half = static_cast<int>(dim / 2);
  GLINT_CHECK(table.half <= kRopePairsMax);
  table.near = pairs == RopePairs::interleaved ? 2 : 1;
  table.partner = pairs == RopePairs::interleaved ? 1 : table.half;
  for (int i = 0; i < table.half; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    table.inverse[i] = 1.0F / std::pow(static_cast<float>(theta), exponent);
  }
  with_element(dtype, [&](auto element) {
    using T = decltype(element);
    rope_kernel<T><<<static_cast<unsigned>(x.rows), kThreads, 0, stream>>>(
        typed<T>(x), static_cast<int>(heads), head_dim, first, table, position);
  });
  launched("launching rope");
}

void swiglu(Activation gate, Activation up, Activation y, ComputeDType dtype, cudaStream_t stream) {
  with_element(dtype, [&](auto element) {
    using T = decltype(element);
    launch_early(swiglu_kernel<T>, element_grid(y.rows, y.cols), kThreads, 0, stream, "launching swiglu",
                 constant(typed<T>(gate)), constant(typed<T>(up)), typed<T>(y));
  });
}

void add_floats(Floats y, Floats x, cudaStream_t stream) {
  add_kernel<float, float>
      <<<element_grid(x.rows, x.cols), kThreads, 0, stream>>>(constant(typed(y)), typed(x));
  launched("launching add");
}

void add_floats(Floats y, Activation x, ComputeDType dtype, cudaStream_t stream) {
  with_element(dtype, [&](auto element) {
    using T = decltype(element);
    add_kernel<float, T>
        <<<element_grid(x.rows, x.cols), kThreads, 0, stream>>>(constant(typed(y)), typed<T>(x));
  });
  launched("launching add");
}

void add_activation(Activation y, Activation x, ComputeDType dtype, cudaStream_t stream) {
  with_element(dtype, [&](auto element) {
    using T = decltype(element);
    add_kernel<T, T>
        <<<element_grid(x.rows, x.cols), kThreads, 0, stream>>>(constant(typed<T>(y)), typed<T>(x));
  });
  launched("launching add");
}

void gather_rows(Activation x, const int32_t* rows, Activation y, ComputeDType dtype, cudaStream_t stream) {
  if (y.rows == 0) return;
  with_element(dtype, [&](auto element) {
    using T = decltype(element);
    gather_kernel<T, T>
        <<<element_grid(y.rows, y.cols), kThreads, 0, stream>>>(constant(typed<T>(x)), rows, typed<T>(y));
  });
  launched("launching gather_rows");
}

void gather_selection(const Selection& x, const int32_t* rows, const Selection& y, cudaStream_t stream) {
  if (y.lists.rows == 0) return;
  gather_selection_kernel<<<static_cast<unsigned>(y.lists.rows), kThreads, 0, stream>>>(x, rows, y);
  launched("launching gather_selection");
}

void copy_rope_part(Activation q, int64_t heads, int64_t nope, int64_t rope, int64_t kv_lora, Activation y,
                    ComputeDType dtype, cudaStream_t stream) {
  with_element(dtype, [&](auto element) {
    using T = decltype(element);
    copy_rope_part_kernel<T><<<static_cast<unsigned>(q.rows), kThreads, 0, stream>>>(
        constant(typed<T>(q)), heads, nope, rope, kv_lora, typed<T>(y));
  });
  launched("launching copy_rope_part");
}

}  // namespace glint::ops::cuda
