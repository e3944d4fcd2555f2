#include "ops/cuda/cuda_ops.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/integers.h"
#include "base/numeric.h"
#include "ops/cuda/cache_rows.h"
#include "ops/cuda/check.h"
#include "ops/cuda/matmul.h"
#include "ops/cuda/quantize_rows.h"
#include "ops/cuda/route.h"
#include "ops/cuda/rows.h"
#include "ops/cuda/select.h"
#include "ops/cuda/sparse_attention.h"

namespace glint::ops::cuda {

namespace {

constexpr int64_t kScaleColumns = 128;

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
    if (runs(logits.rows)) cuda::choose_experts(logits, bias, params, experts, stream_);
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
  struct ExpertBlock;  // scratch of a block of rows

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
                      .scale_stride = ceil_div(cols, kScaleColumns)};
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
  void multiply_by(Activation x, const Weight& W, Matmul& product);
  void expert_block(Activation x, Ints experts, Floats weights, std::span<const ExpertWeights> table,
                    Floats y);

  ComputeDType dtype_;
  Arena& arena_;
  const ExpertTables& tables_;
  CudaOptions options_;
  cudaStream_t stream_;
};

void CudaOps::multiply_by(Activation x, const Weight& W, Matmul& product) {
  const Arena::Scope scope(arena_);
  product.batch_invariant = options_.batch_invariant;
  product.weight = W;
  product.rows = x.rows;
  if (quantizes(W)) {
    const QuantizedRows quantized = take_quantized(x.rows, x.cols);
    if (runs(x.rows)) quantize_rows(x, quantized, stream_);
    set_input(product, quantized);
  } else {
    set_input(product, x);
  }
  if (runs(x.rows)) multiply(product, stream_);
}

void CudaOps::absorb_query(Activation q, const Weight& kv_b, int64_t heads, int64_t nope, int64_t rope,
                           int64_t /*v*/, Activation y) {
  if (!runs(q.rows)) return;
  const int64_t kv_lora = kv_b.cols;
  Matmul product;
  product.batch_invariant = options_.batch_invariant;
  set_input(product, q);
  product.rows = q.rows;
  product.weight = {.format = kv_b.format, .rows = heads * kv_lora, .cols = nope, .data = kv_b.data};
  product.y = y.data;
  product.y_stride = y.stride;
  product.batch = heads;
  product.x_batch = nope + rope;
  product.w_batch_rows = kv_lora;
  product.y_batch = kv_lora + rope;
  product.out_cols = kv_lora;
  multiply(product, stream_);
  copy_rope_part(q, heads, nope, rope, kv_lora, y, dtype_, stream_);
}

void CudaOps::expand_value(Activation o, const Weight& kv_b, int64_t heads, int64_t nope, int64_t v,
                           Activation y) {
  if (!runs(o.rows)) return;
  const int64_t kv_lora = kv_b.cols;
  Matmul product;
  product.batch_invariant = options_.batch_invariant;
  set_input(product, o);
  product.rows = o.rows;
  product.weight = {
      .format = kv_b.format,
      .rows = heads * v,
      .cols = kv_lora,
      .data = static_cast<const std::byte*>(kv_b.data) + heads * kv_lora * nope * element_bytes()};
  product.y = y.data;
  product.y_stride = y.stride;
  product.batch = heads;
  product.x_batch = kv_lora;
  product.w_batch_rows = v;
  product.y_batch = v;
  product.out_cols = v;
  multiply(product, stream_);
}

void CudaOps::select(Activation q, Floats w, float scale, const RowMap& rows, const CacheLayer& keys,
                     int64_t heads, int64_t topk, Selection out) {
  const Arena::Scope scope(arena_);
  const int64_t stride = ceil_div(rows.context_max, kPageTokens) * kPageTokens;
  const int64_t floats_max = indexer_scratch_floats(options_.limits, q.rows, rows.context_max);
  const int64_t tile_rows = std::min(floats_max / stride, std::max<int64_t>(1, q.rows));
  float* scores = take<float>(floats_max);
  if (!runs(q.rows)) return;
  for (int64_t first = 0; first < q.rows; first += tile_rows) {
    const int64_t count = std::min(tile_rows, q.rows - first);
    // Where everything fits into the list there is nothing to choose.
    if (rows.context_max > topk) {
      score_keys(q, w, scale, rows, keys, heads, first, count, scores, stride, dtype_, stream_);
    }
    select_largest(scores, stride, rows, first, count, topk, out, stream_);
  }
}

void CudaOps::sparse_attention(Activation q, const RowMap& rows, const Selection& selection,
                               const CacheLayer& cache, int64_t heads, int64_t kv_lora, float scale,
                               Activation o) {
  const Arena::Scope scope(arena_);
  const SparseAttention a{.q = q,
                          .rows = rows,
                          .selection = selection,
                          .cache = cache,
                          .heads = heads,
                          .kv_lora = kv_lora,
                          .scale = scale,
                          .o = o};
  float* scratch = take<float>(attention_scratch_floats(a, dtype_));
  if (runs(q.rows)) attend(a, dtype_, scratch, stream_);
}

void CudaOps::experts(Activation x, Ints experts, Floats weights, std::span<const ExpertWeights> table,
                      Floats y) {
  const int64_t block =
      expert_block_rows(options_.limits, x.rows, x.cols, table[0].gate.rows, experts.cols, bf16() ? 2 : 4);
  for (int64_t first = 0; first < x.rows; first += block) {
    const int64_t count = std::min(block, x.rows - first);
    Activation part = x;
    part.rows = count;
    Ints chosen{experts.data, count, experts.cols};
    Floats factors{weights.data, count, weights.cols, weights.stride};
    Floats sums{y.data, count, y.cols, y.stride};
    if (!arena_.measuring()) {
      part.data = static_cast<std::byte*>(x.data) + first * x.stride * element_bytes();
      chosen.data += first * experts.cols;
      factors.data += first * weights.stride;
      sums.data += first * y.stride;
    }
    expert_block(part, chosen, factors, table, sums);
  }
}

/// Rows of one expert that a tile should hold: about what a group has on average, so that few rows are
/// wasted; many where weights are read once for them all.
int64_t expert_tile_rows(int64_t pairs, int64_t experts, bool hopper) {
  const int64_t mean = ceil_div(pairs, experts);
  if (mean <= 4) return 8;
  if (mean <= 12) return 16;
  if (hopper) return 128;
  return mean <= 24 ? 32 : mean <= 96 ? 64 : 128;
}

void CudaOps::expert_block(Activation x, Ints experts, Floats weights, std::span<const ExpertWeights> table,
                           Floats y) {
  const Arena::Scope scope(arena_);
  const int64_t pairs = experts.rows * experts.cols;
  const auto experts_count = static_cast<int64_t>(table.size());
  const Weight& gate = table[0].gate;
  const int64_t inner = gate.rows;
  const bool quantized = quantizes(gate);
  Matmul up;
  up.batch_invariant = options_.batch_invariant;
  up.weight = gate;
  up.input = quantized ? InputFormat::fp8 : input_format();
  PairGroups groups{.tile_rows = expert_tile_rows(pairs, experts_count, takes_hopper_form(up))};
  groups.tiles_max = tiles_max(pairs, experts_count, groups.tile_rows);
  groups.row = take<int32_t>(pairs);
  groups.place = take<int32_t>(pairs);
  // What the tiles take must not shrink when there are more rows: the planned step has the most rows.
  const int64_t room = std::min(pairs, experts_count + pairs / 8);
  groups.used = take<int32_t>(1);
  groups.expert = take<int32_t>(room);
  groups.first = take<int32_t>(room);
  groups.count = take<int32_t>(room);
  const QuantizedRows input = quantized ? take_quantized(x.rows, x.cols) : QuantizedRows{};
  const Activation both = activation(2 * pairs, inner);
  const QuantizedRows middle = quantized ? take_quantized(pairs, inner) : QuantizedRows{};
  float* sums = take<float>(pairs * x.cols);
  if (!runs(x.rows)) return;

  const auto known = tables_.find(table.data());
  GLINT_CHECK(known != tables_.end());
  group_pairs(experts, experts_count, groups, stream_);
  if (quantized) {
    quantize_rows(x, input, stream_);
    set_input(up, input);
  } else {
    set_input(up, x);
  }
  up.x_rows = groups.row;
  up.rows = pairs;
  up.table = known->second;
  up.table_stride = 3;
  up.tiles = {.used = groups.used,
              .expert = groups.expert,
              .first = groups.first,
              .count = groups.count,
              .tiles_max = groups.tiles_max,
              .tile_rows = groups.tile_rows};
  up.y = both.data;
  up.y_stride = inner;
  up.batch = 2;  // gate, then up
  up.y_batch = pairs * inner;
  multiply(up, stream_);

  const Activation gates{both.data, pairs, inner, inner};
  const Activation ups{static_cast<std::byte*>(both.data) + pairs * inner * element_bytes(), pairs, inner,
                       inner};
  Matmul down;
  down.batch_invariant = options_.batch_invariant;
  if (quantized) {
    swiglu_quantize_rows(gates, ups, middle, stream_);
    set_input(down, middle);
  } else {
    cuda::swiglu(gates, ups, gates, dtype_, stream_);
    set_input(down, gates);
  }
  down.rows = pairs;
  down.weight = table[0].down;
  down.table = known->second + 2;
  down.table_stride = 3;
  down.tiles = up.tiles;
  down.y_is_float = true;
  down.y = sums;
  down.y_stride = x.cols;
  multiply(down, stream_);
  combine_pairs(sums, x.cols, groups.place, weights, y, stream_);
}

void CudaOps::download(Activation x, float* out) {
  GLINT_CHECK(!arena_.measuring());
  const auto bytes = static_cast<size_t>(element_bytes());
  const auto cols = static_cast<size_t>(x.cols);
  const auto rows = static_cast<size_t>(x.rows);
  std::vector<uint16_t> halves(bf16() ? rows * cols : 0);
  void* target = bf16() ? static_cast<void*>(halves.data()) : out;
  check(cudaMemcpy2DAsync(target, cols * bytes, x.data, static_cast<size_t>(x.stride) * bytes, cols * bytes,
                          rows, cudaMemcpyDeviceToHost, stream_),
        "copying from the device");
  wait();
  for (size_t i = 0; i < halves.size(); ++i) out[i] = bf16_to_float(halves[i]);
}

void CudaOps::upload(const float* in, Activation x) {
  GLINT_CHECK(!arena_.measuring());
  const auto bytes = static_cast<size_t>(element_bytes());
  const auto cols = static_cast<size_t>(x.cols);
  const auto rows = static_cast<size_t>(x.rows);
  std::vector<uint16_t> halves(bf16() ? rows * cols : 0);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = float_to_bf16(in[i]);
  const void* source = bf16() ? static_cast<const void*>(halves.data()) : in;
  check(cudaMemcpy2DAsync(x.data, static_cast<size_t>(x.stride) * bytes, source, cols * bytes, cols * bytes,
                          rows, cudaMemcpyHostToDevice, stream_),
        "copying to the device");
  wait();
}

}  // namespace

std::unique_ptr<Ops> make_cuda_ops(ComputeDType dtype, Arena& arena, const ExpertTables& tables,
                                   const CudaOptions& options, cudaStream_t stream) {
  return std::make_unique<CudaOps>(dtype, arena, tables, options, stream);
}

void prepare_kernels() {
  prepare_matmul();
  prepare_attention();
  prepare_select();
}

}  // namespace glint::ops::cuda
