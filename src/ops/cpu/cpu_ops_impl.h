// The class behind make_cpu_ops; its operations are spread over several files by kind.
#pragma once

#include <algorithm>
#include <map>
#include <type_traits>
#include <vector>

#include "base/integers.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/kernels.h"

namespace glint::ops::cpu {

inline float* data_of(Activation x) {
  return static_cast<float*>(x.data);
}
inline float* row_of(Activation x, int64_t row) {
  return data_of(x) + row * x.stride;
}
inline float* row_of(Floats x, int64_t row) {
  return x.data + row * x.stride;
}

class CpuOps final : public Ops {
 public:
  CpuOps(ThreadPool& pool, Isa isa, ComputeDType dtype, Arena& arena, int64_t indexer_scratch_bytes)
      : pool_(pool),
        kernels_(kernels(isa)),
        dtype_(dtype),
        arena_(arena),
        indexer_scratch_bytes_(indexer_scratch_bytes) {}

  Arena& arena() override { return arena_; }
  [[nodiscard]] ComputeDType compute_dtype() const override { return dtype_; }
  Activation activation(int64_t rows, int64_t cols) override;
  Floats floats(int64_t rows, int64_t cols) override;
  Ints ints(int64_t rows, int64_t cols) override;
  [[nodiscard]] Activation columns(Activation x, int64_t first, int64_t cols) const override;

  void embed(const int32_t* ids, const Weight& table, Activation y) override;
  void rms_norm(Activation x, const float* weight, float eps, Activation y) override;
  void layer_norm(Activation x, const float* weight, const float* bias, float eps, Activation y) override;
  void linear(Activation x, const Weight& W, Activation y) override;
  void linear(Activation x, const Weight& W, Floats y) override;
  void rope(Activation x, int64_t heads, int64_t head_dim, int64_t first, int64_t dim, double theta,
            RopePairs pairs, const int32_t* position) override;
  void absorb_query(Activation q, const Weight& kv_b, int64_t heads, int64_t nope, int64_t rope, int64_t v,
                    Activation y) override;
  void expand_value(Activation o, const Weight& kv_b, int64_t heads, int64_t nope, int64_t v,
                    Activation y) override;
  void write_cache(Activation x, const RowMap& rows, const CacheLayer& cache) override;
  void select(Activation q, Floats w, float scale, const RowMap& rows, const CacheLayer& keys, int64_t heads,
              int64_t topk, Selection out) override;
  void sparse_attention(Activation q, const RowMap& rows, const Selection& selection, const CacheLayer& cache,
                        int64_t heads, int64_t kv_lora, float scale, Activation o) override;
  void swiglu(Activation gate, Activation up, Activation y) override;
  void choose_experts(Floats logits, const float* bias, const RouteParams& params, Ints experts) override;
  void weigh_experts(Floats logits, const float* bias, const RouteParams& params, Ints experts,
                     Floats weights) override;
  void experts(Activation x, Ints experts, Floats weights, std::span<const ExpertWeights> table,
               Floats y) override;
  void add(Floats y, Floats x) override;
  void add(Floats y, Activation x) override;
  void add(Activation y, Activation x) override;
  void copy(Activation x, Activation y) override;
  void gather_rows(Activation x, const int32_t* rows, Activation y) override;
  void gather_selection(const Selection& x, const int32_t* rows, const Selection& y) override;
  void download(Activation x, float* out) override;
  void upload(const float* in, Activation x) override;
  void download(Floats x, float* out) override;
  void download(Ints x, int32_t* out) override;
  void upload(const int32_t* in, Ints x) override;

 private:
  struct ExpertGroup;  // the rows of one expert

  void round_row(float* x, int64_t n) const {
    if (dtype_ == ComputeDType::bfloat16) kernels_.round_bf16(x, n);
  }
  [[nodiscard]] bool bf16() const { return dtype_ == ComputeDType::bfloat16; }

  /// body(row) or body(row, worker) for every row, spread over the threads when the work is worth it.
  template <class Body>
  void each_row(int64_t rows, int64_t cols, const Body& body);
  template <class T>
  T* take(int64_t count) {
    return static_cast<T*>(arena_.take(count * static_cast<int64_t>(sizeof(T))));
  }
  /// out[m][n - n0] = W x for the rows [n0, n1) of W, cut over the threads; rounded to the grid if asked.
  void matmul(const float* x, int64_t ldx, int64_t rows, const Weight& W, float* out, int64_t ldo,
              bool round);
  [[nodiscard]] int64_t columns_per_item(int64_t columns) const;
  /// All values of a row, as float32.
  void widen_cache_row(const CacheLayer& cache, int32_t page, int64_t row, float* out) const;
  void widen_e4m3(const std::byte* codes, int64_t count, const std::byte* scales, float* out) const;

  void score_keys(Activation q, Floats w, float scale, const RowMap& rows, const CacheLayer& keys,
                  int64_t heads, int64_t first_row, int64_t row_count, float* scores, int64_t score_stride,
                  float* scratch);
  void attend(const float* q, int64_t head_count, const RowMap& rows, int64_t row, const Selection& selection,
              const CacheLayer& cache, int64_t kv_lora, float scale, float* o, float* scratch) const;
  void expert_block(Activation x, Ints experts, Floats weights, std::span<const ExpertWeights> table,
                    Floats y);

  ThreadPool& pool_;
  const Kernels& kernels_;
  ComputeDType dtype_;
  Arena& arena_;
  int64_t indexer_scratch_bytes_;
  std::map<std::pair<double, int64_t>, std::vector<float>> inverse_frequencies_;
};

template <class Body>
void CpuOps::each_row(int64_t rows, int64_t cols, const Body& body) {
  // Below this many values a thread's wake-up costs more than the work.
  constexpr int64_t kValuesPerItem = 16384;
  const int64_t rows_per_item = std::max<int64_t>(1, kValuesPerItem / std::max<int64_t>(1, cols));
  pool_.run(ceil_div(rows, rows_per_item), [&](int64_t item, int worker) {
    const int64_t end = std::min(rows, (item + 1) * rows_per_item);
    for (int64_t row = item * rows_per_item; row < end; ++row) {
      if constexpr (std::is_invocable_v<Body, int64_t, int>)
        body(row, worker);
      else
        body(row);
    }
  });
}

}  // namespace glint::ops::cpu
