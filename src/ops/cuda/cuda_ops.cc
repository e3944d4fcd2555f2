// Products, the indexer, attention, and copies to and from the host.
#include <algorithm>
#include <vector>

#include "base/numeric.h"
#include "ops/cuda/cuda_ops_impl.h"
#include "ops/cuda/sample.h"

namespace glint::ops::cuda {

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

std::unique_ptr<Ops> make_cuda_ops(ComputeDType dtype, Arena& arena, const ExpertTables& tables,
                                   const CudaOptions& options, cudaStream_t stream) {
  return std::make_unique<CudaOps>(dtype, arena, tables, options, stream);
}

void prepare_kernels() {
  prepare_matmul();
  prepare_attention();
  prepare_select();
  prepare_sampling();
}

}  // namespace glint::ops::cuda
