// A backend that computes nothing: it says what the operations of a GPU backend take of the arena, as a
// function of rows and context, so that a machine can be planned for that is not here.
#pragma once

#include "ops/ops.h"

namespace glint::ops {

/// The declared sizes. Activations are bfloat16, sums float32, weights as they are stored.
struct DeclaredLimits {
  int64_t indexer_scratch_bytes = int64_t{2} << 30;  // scores of 512 rows at a context of 1,048,576
  int64_t expert_scratch_bytes = int64_t{1} << 30;   // inner results and sums of the routed experts
};

/// Floats for the indexer's scores of `rows` rows at this context: within the budget, but of one row at
/// least.
int64_t indexer_scratch_floats(const DeclaredLimits& limits, int64_t rows, int64_t context);
/// Rows whose routed experts are computed together.
int64_t expert_block_rows(const DeclaredLimits& limits, int64_t rows, int64_t cols, int64_t inner,
                          int64_t chosen, int64_t element_bytes);

/// Takes the arena's memory as these operations declare it, and returns:
///  - linear on FP8 blocks: its input in E4M3 with a float32 scale for each 128 columns;
///  - indexer: float32 scores of as many rows as the budget holds, each with its own context;
///  - sparse attention: of steps of few rows, the results of each 128 selected positions;
///  - routed experts: blocks of rows within the budget: where each (token, expert) pair goes; with FP8
///  experts
///    the input in E4M3; gate and up in bfloat16; with FP8 experts swiglu's result in E4M3; down in float32;
///  - everything else: nothing, it works in registers and shared memory.
class DeclaredOps final : public Ops {
 public:
  /// `arena` must be measuring and outlive this.
  DeclaredOps(Arena& arena, const DeclaredLimits& limits) : arena_(arena), limits_(limits) {}

  Arena& arena() override { return arena_; }
  [[nodiscard]] ComputeDType compute_dtype() const override { return ComputeDType::bfloat16; }
  Activation activation(int64_t rows, int64_t cols) override;
  Floats floats(int64_t rows, int64_t cols) override;
  Ints ints(int64_t rows, int64_t cols) override;
  [[nodiscard]] Activation columns(Activation x, int64_t first, int64_t cols) const override;
  void embed(const int32_t* /*ids*/, const Weight& /*table*/, Activation /*y*/) override {}
  void rms_norm(Activation /*x*/, const float* /*weight*/, float /*eps*/, Activation /*y*/) override {}
  void layer_norm(Activation /*x*/, const float* /*weight*/, const float* /*bias*/, float /*eps*/,
                  Activation /*y*/) override {}
  void linear(Activation x, const Weight& W, Activation y) override;
  void linear(Activation x, const Weight& W, Floats y) override;
  void rope(Activation /*x*/, int64_t /*heads*/, int64_t /*head_dim*/, int64_t /*first*/, int64_t /*dim*/,
            double /*theta*/, RopePairs /*pairs*/, const int32_t* /*position*/) override {}
  void absorb_query(Activation /*q*/, const Weight& /*kv_b*/, int64_t /*heads*/, int64_t /*nope*/,
                    int64_t /*rope*/, int64_t /*v*/, Activation /*y*/) override {}
  void expand_value(Activation /*o*/, const Weight& /*kv_b*/, int64_t /*heads*/, int64_t /*nope*/,
                    int64_t /*v*/, Activation /*y*/) override {}
  void write_cache(Activation /*x*/, const RowMap& /*rows*/, const CacheLayer& /*cache*/) override {}
  void select(Activation q, Floats w, float scale, const RowMap& rows, const CacheLayer& keys, int64_t heads,
              int64_t topk, Selection out) override;
  void sparse_attention(Activation q, const RowMap& rows, const Selection& selection, const CacheLayer& cache,
                        int64_t heads, int64_t kv_lora, float scale, Activation o) override;
  void swiglu(Activation /*gate*/, Activation /*up*/, Activation /*y*/) override {}
  void choose_experts(Floats /*logits*/, const float* /*bias*/, const RouteParams& /*params*/,
                      Ints /*experts*/) override {}
  void weigh_experts(Floats /*logits*/, const float* /*bias*/, const RouteParams& /*params*/,
                     Ints /*experts*/, Floats /*weights*/) override {}
  void experts(Activation x, Ints experts, Floats weights, std::span<const ExpertWeights> table,
               Floats y) override;
  void add(Floats /*y*/, Floats /*x*/) override {}
  void add(Floats /*y*/, Activation /*x*/) override {}
  void add(Activation /*y*/, Activation /*x*/) override {}
  void copy(Activation /*x*/, Activation /*y*/) override {}
  void gather_rows(Activation /*x*/, const int32_t* /*rows*/, Activation /*y*/) override {}
  void gather_selection(const Selection& /*x*/, const int32_t* /*rows*/, const Selection& /*y*/) override {}
  void download(Activation /*x*/, float* /*out*/) override {}
  void upload(const float* /*in*/, Activation /*x*/) override {}
  void download(Floats /*x*/, float* /*out*/) override {}
  void download(Ints /*x*/, int32_t* /*out*/) override {}
  void upload(const int32_t* /*in*/, Ints /*x*/) override {}

 private:
  void quantised_input(Activation x, const Weight& W);
  void take_quantised(int64_t rows, int64_t cols);

  Arena& arena_;
  DeclaredLimits limits_;
};

}  // namespace glint::ops
