// Tells what each operation of a step takes of the arena, while the step runs on a measuring one.
#pragma once

#include <string_view>
#include <vector>

#include "ops/ops.h"

namespace glint::ops {

/// What a step takes.
struct StepMemory {
  struct Operation {
    std::string_view name;
    int64_t scratch_bytes = 0;  // the most that one call takes; given back when it returns
  };
  int64_t peak_bytes = 0;  // of the arena
  // At the peak: what lives from one operation to the next, and the operation whose scratch stands on top
  // (empty: none does).
  int64_t activation_bytes = 0;
  std::string_view peak_operation;
  std::vector<Operation> operations;  // those that take any, largest first

  [[nodiscard]] int64_t scratch_of(std::string_view name) const;
};

/// Passes every call on to `inner`, whose arena must be measuring.
class StepMeter final : public Ops {
 public:
  explicit StepMeter(Ops& inner) : inner_(inner) {}

  /// Of all calls so far.
  [[nodiscard]] StepMemory memory() const;

  Arena& arena() override { return inner_.arena(); }
  [[nodiscard]] ComputeDType compute_dtype() const override { return inner_.compute_dtype(); }
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
  template <class Call>
  auto metered(std::string_view name, const Call& call);
  void note(int64_t live, int64_t scratch, std::string_view operation);

  Ops& inner_;
  StepMemory memory_;
};

}  // namespace glint::ops
