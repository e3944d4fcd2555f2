// The class behind make_cuda_ops.
#pragma once

#include "base/integers.h"
#include "ops/cuda/cache_rows.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/matmul.h"
#include "ops/cuda/quantize_rows.h"
#include "ops/cuda/route.h"
#include "ops/cuda/rows.h"
#include "ops/cuda/select.h"
#include "ops/cuda/sparse_attention.h"

namespace glint::ops::cuda {

class CudaOps final : public Ops {
 public:
  CudaOps(ComputeDType dtype, Arena& arena, const ExpertTables& tables, const CudaOptions& options,
          cudaStream_t stream)
      : dtype_(dtype), arena_(arena), tables_(tables), options_(options), stream_(stream) {}

  Arena& arena() override { return arena_; }
  [[nodiscard]] ComputeDType compute_dtype() const override { return dtype_; }

  Activation activation(int64_t rows, int64_t cols) override {
    return {arena_.take(rows * cols * element_bytes()), rows, cols, cols};
  }
  Floats floats(int64_t rows, int64_t cols) override { return {take<float>(rows * cols), rows, cols, cols}; }
  Ints ints(int64_t rows, int64_t cols) override { return {take<int32_t>(rows * cols), rows, cols}; }
  [[nodiscard]] Activation columns(Activation x, int64_t first, int64_t cols) const override {
    return {x.data == nullptr ? nullptr : static_cast<std::byte*>(x.data) + first * element_bytes(), x.rows,
            cols, x.stride};
  }

  void embed(const int32_t* ids, const Weight& table, Activation y) override {
    if (runs(y.rows)) cuda::embed(ids, table, y, dtype_, stream_);
  }
  void rms_norm(Activation x, const float* weight, float eps, Activation y) override {
    if (runs(x.rows)) cuda::rms_norm(x, weight, eps, y, dtype_, stream_);
  }
  void layer_norm(Activation x, const float* weight, const float* bias, float eps, Activation y) override {
    if (runs(x.rows)) cuda::layer_norm(x, weight, bias, eps, y, dtype_, stream_);
  }
  void linear(Activation x, const Weight& W, Activation y) override {
    Matmul product;
    product.y = y.data;
    product.y_stride = y.stride;
    multiply_by(x, W, product);
  }
  void linear(Activation x, const Weight& W, Floats y) override {
    Matmul product;
    product.y_is_float = true;
    product.y = y.data;
    product.y_stride = y.stride;
    multiply_by(x, W, product);
  }
  void rope(Activation x, int64_t heads, int64_t head_dim, int64_t first, int64_t dim, double theta,
            RopePairs pairs, const int32_t* position) override {
    if (runs(x.rows)) cuda::rope(x, heads, head_dim, first, dim, theta, pairs, position, dtype_, stream_);
  }
  void absorb_query(Activation q, const Weight& kv_b, int64_t heads, int64_t nope, int64_t rope, int64_t v,
                    Activation y) override;
  void expand_value(Activation o, const Weight& kv_b, int64_t heads, int64_t nope, int64_t v,
                    Activation y) override;
  void write_cache(Activation x, const RowMap& rows, const CacheLayer& cache) override {
    if (runs(x.rows)) cuda::write_cache(x, rows, cache, dtype_, stream_);
  }
  void select(Activation q, Floats w, float scale, const RowMap& rows, const CacheLayer& keys, int64_t heads,
              int64_t topk, Selection out) override;
  void sparse_attention(Activation q, const RowMap& rows, const Selection& selection, const CacheLayer& cache,
                        int64_t heads, int64_t kv_lora, float scale, Activation o) override;
  void swiglu(Activation gate, Activation up, Activation y) override {
    if (runs(y.rows)) cuda::swiglu(gate, up, y, dtype_, stream_);
  }
  void choose_experts(Floats logits, const float* bias, const RouteParams& params, Ints experts) override {
    if (runs(logits.rows)) cuda::choose_experts(logits, bias, params, experts, counts_of(bias), stream_);
  }
  void weigh_experts(Floats logits, const float* bias, const RouteParams& params, Ints experts,
                     Floats weights) override {
    if (runs(logits.rows)) cuda::weigh_experts(logits, bias, params, experts, weights, stream_);
  }
  void experts(Activation x, Ints experts, Floats weights, std::span<const ExpertWeights> table,
               Floats y) override;
  void add(Floats y, Floats x) override {
    if (runs(x.rows)) add_floats(y, x, stream_);
  }
  void add(Floats y, Activation x) override {
    if (runs(x.rows)) add_floats(y, x, dtype_, stream_);
  }
  void add(Activation y, Activation x) override {
    if (runs(x.rows)) add_activation(y, x, dtype_, stream_);
  }
  void copy(Activation x, Activation y) override {
    if (runs(x.rows)) cuda::gather_rows(x, nullptr, y, dtype_, stream_);
  }
  void gather_rows(Activation x, const int32_t* rows, Activation y) override {
    if (runs(y.rows)) cuda::gather_rows(x, rows, y, dtype_, stream_);
  }
  void gather_selection(const Selection& x, const int32_t* rows, const Selection& y) override {
    if (runs(y.lists.rows)) cuda::gather_selection(x, rows, y, stream_);
  }
  void download(Activation x, float* out) override;
  void upload(const float* in, Activation x) override;
  void download(Floats x, float* out) override {
    const auto row_bytes = static_cast<size_t>(x.cols) * sizeof(float);
    check(cudaMemcpy2DAsync(out, row_bytes, x.data, static_cast<size_t>(x.stride) * sizeof(float), row_bytes,
                            static_cast<size_t>(x.rows), cudaMemcpyDeviceToHost, stream_),
          "copying from the device");
    wait();
  }
  void download(Ints x, int32_t* out) override {
    check(cudaMemcpyAsync(out, x.data, static_cast<size_t>(x.rows * x.cols) * sizeof(int32_t),
                          cudaMemcpyDeviceToHost, stream_),
          "copying from the device");
    wait();
  }
  void upload(const int32_t* in, Ints x) override {
    check(cudaMemcpyAsync(x.data, in, static_cast<size_t>(x.rows * x.cols) * sizeof(int32_t),
                          cudaMemcpyHostToDevice, stream_),
          "copying to the device");
    wait();
  }

 private:
  [[nodiscard]] bool runs(int64_t rows) const { return !arena_.measuring() && rows > 0; }
  [[nodiscard]] bool bf16() const { return dtype_ == ComputeDType::bfloat16; }
  [[nodiscard]] int64_t element_bytes() const { return bf16() ? 2 : 4; }
  [[nodiscard]] InputFormat input_format() const {
    return bf16() ? InputFormat::bfloat16 : InputFormat::float32;
  }
  [[nodiscard]] bool quantizes(const Weight& W) const {
    return bf16() && options_.fp8_activations && W.format == WeightFormat::fp8_block;
  }
  void wait() { check(cudaStreamSynchronize(stream_), "waiting for the device"); }

  template <class T>
  T* take(int64_t count) {
    return static_cast<T*>(arena_.take(count * static_cast<int64_t>(sizeof(T))));
  }
  QuantizedRows take_quantized(int64_t rows, int64_t cols) {
    QuantizedRows out{.rows = rows,
                      .cols = cols,
                      .stride = ceil_div(cols, int64_t{16}) * 16,
                      .scale_stride = ceil_div(cols, int64_t{128})};
    out.codes = take<uint8_t>(rows * out.stride);
    out.scales = take<float>(rows * out.scale_stride);
    return out;
  }
  static void set_input(Matmul& product, const QuantizedRows& x) {
    product.input = InputFormat::fp8;
    product.x = x.codes;
    product.x_stride = x.stride;
    product.x_scales = x.scales;
    product.x_scale_stride = x.scale_stride;
  }
  void set_input(Matmul& product, Activation x) const {
    product.input = input_format();
    product.x = x.data;
    product.x_stride = x.stride;
  }
  [[nodiscard]] ChoiceCounts counts_of(const float* bias) const {
    if (options_.counted == nullptr) return {};
    const auto known = options_.counted->counts.find(bias);
    if (known == options_.counted->counts.end()) return {};
    return {known->second, options_.counted->rows};
  }
  void multiply_by(Activation x, const Weight& W, Matmul& product);
  void expert_block(Activation x, Ints experts, Floats weights, std::span<const ExpertWeights> table,
                    Floats y);

  ComputeDType dtype_;
  Arena& arena_;
  const ExpertTables& tables_;
  CudaOptions options_;
  cudaStream_t stream_;
};

}  // namespace glint::ops::cuda
