// The operations of the forward pass. The model is written in terms of these; a backend implements them.
//
// Rules for every operation and every backend:
//  - A row's result never depends on the other rows, on how many there are, or on the number of threads.
//  - Sums are float32. An Activation result is rounded once, to the compute type's grid.
//  - Outputs may not overlap inputs unless the comment says "in place".
//  - Ties are broken by the lowest index, everywhere.
//  - Shapes are checked by the caller: a wrong shape is a fault of ours, not of a user.
//  - While arena() is measuring, an operation only takes the scratch that it would take.
// T = rows of the step, H = hidden_size.
#pragma once

#include <cstdint>
#include <span>

#include "ops/arena.h"
#include "ops/types.h"
#include "tensor/weight.h"

namespace glint::ops {

/// How the router turns logits into experts and weights (architecture: MoE).
struct RouteParams {
  int64_t num_experts_per_tok = 0;
  int64_t n_group = 1;
  int64_t topk_group = 1;
  bool norm_topk_prob = true;
  float routed_scaling_factor = 1.0F;
  bool weights_from_biased_scores = false;  // wrong for this model; tests use it to see a golden turn red
};

/// One expert's three projections; gate and up are [moe_intermediate_size, H], down is [H,
/// moe_intermediate_size].
struct ExpertWeights {
  Weight gate, up, down;
};

enum class RopePairs {
  interleaved,  // (x[2i], x[2i+1]) is rotated by angle i
  half_split,   // (x[i], x[i + dim/2])
};

class Ops {
 public:
  virtual ~Ops() = default;

  [[nodiscard]] virtual Arena& arena() = 0;
  [[nodiscard]] virtual ComputeDType compute_dtype() const = 0;

  /// Step memory, valid until the enclosing Arena::Scope ends; contents are undefined.
  virtual Activation activation(int64_t rows, int64_t cols) = 0;
  virtual Floats floats(int64_t rows, int64_t cols) = 0;
  virtual Ints ints(int64_t rows, int64_t cols) = 0;

  /// The view of columns [first, first + cols) of x.
  [[nodiscard]] virtual Activation columns(Activation x, int64_t first, int64_t cols) const = 0;

  /// y[t] = table[ids[t]]; ids in [0, table.rows).
  virtual void embed(const int32_t* ids, const Weight& table, Activation y) = 0;

  /// y[t] = weight * (x[t] * rsqrt(mean(x[t]^2) + eps)). In place allowed. weight: float32 [x.cols].
  virtual void rms_norm(Activation x, const float* weight, float eps, Activation y) = 0;

  /// y[t] = weight * (x[t] - mean) * rsqrt(variance + eps) + bias, population variance. In place allowed.
  virtual void layer_norm(Activation x, const float* weight, const float* bias, float eps, Activation y) = 0;

  /// y[t] = W x[t]; x.cols == W.cols, y.cols == W.rows.
  virtual void linear(Activation x, const Weight& W, Activation y) = 0;
  virtual void linear(Activation x, const Weight& W, Floats y) = 0;

  /// In place, on `heads` heads of `head_dim` values each (x.cols == heads * head_dim): rotates the `dim`
  /// values that start at `first` in every head by position * theta^(-2i/dim); the angle is one float32
  /// product.
  virtual void rope(Activation x, int64_t heads, int64_t head_dim, int64_t first, int64_t dim, double theta,
                    RopePairs pairs, const int32_t* position) = 0;

  /// Absorbs W_UK into the query: kv_b is [heads * (nope + v), kv_lora]; of head h the rows [h * (nope + v),
  /// h * (nope + v) + nope) are W_UK[h]. q: [T, heads * (nope + rope)], nope first.
  /// y[t, h] = [ q_nope[t, h] W_UK[h] (kv_lora values) | q_rope[t, h] (rope values) ].
  virtual void absorb_query(Activation q, const Weight& kv_b, int64_t heads, int64_t nope, int64_t rope,
                            int64_t v, Activation y) = 0;

  /// y[t, h] = W_UV[h] o[t, h], W_UV[h] the last v of head h's rows of kv_b. o: [T, heads * kv_lora], y: [T,
  /// heads * v].
  virtual void expand_value(Activation o, const Weight& kv_b, int64_t heads, int64_t nope, int64_t v,
                            Activation y) = 0;

  /// Writes row t of `x` (x.cols == cache.width) into the cache row of (sequence, position).
  virtual void write_cache(Activation x, const RowMap& rows, const CacheLayer& cache) = 0;

  /// Of row t at position p: scores I[s] = sum over h of scale * w[t, h] * max(q[t, h] . key[s], 0) for s in
  /// [0, p], and the min(topk, p + 1) positions with the largest scores. q: [T, heads * head_dim]; w: [T,
  /// heads]. -0 and +0 are equal; a NaN score counts as the smallest. Keys of these rows must be in the cache
  /// already.
  virtual void select(Activation q, Floats w, float scale, const RowMap& rows, const CacheLayer& keys,
                      int64_t heads, int64_t topk, Selection out) = 0;

  /// o[t, h] = sum over the selected s of softmax_s(scale * q[t, h] . row[s]) * latent[s]; q: [T, heads *
  /// width] as absorb_query makes it, width = cache.width; the latent is the row's first `kv_lora` values. o:
  /// [T, heads * kv_lora].
  virtual void sparse_attention(Activation q, const RowMap& rows, const Selection& selection,
                                const CacheLayer& cache, int64_t heads, int64_t kv_lora, float scale,
                                Activation o) = 0;

  /// y = silu(gate) * up. In place on either input allowed.
  virtual void swiglu(Activation gate, Activation up, Activation y) = 0;

  /// The k experts of row t with the largest sigmoid(logits[t]) + bias (with n_group > 1 only among the
  /// topk_group groups whose two best sum highest), in ascending order. bias: float32 [experts]; experts: [T,
  /// num_experts_per_tok].
  virtual void choose_experts(Floats logits, const float* bias, const RouteParams& params, Ints experts) = 0;

  /// weights[t, j] = s[experts[t, j]] with s = sigmoid(logits[t]), divided by the row's sum + 1e-20 if
  /// norm_topk_prob, times routed_scaling_factor. The bias takes no part (unless params asks for the fault).
  virtual void weigh_experts(Floats logits, const float* bias, const RouteParams& params, Ints experts,
                             Floats weights) = 0;

  /// y[t] = sum over t's experts, in the order given, of weights[t, j] * down(swiglu(gate x[t], up x[t])),
  /// the weight applied after down. swiglu's result is rounded as an Activation.
  virtual void experts(Activation x, Ints experts, Floats weights, std::span<const ExpertWeights> table,
                       Floats y) = 0;

  /// x += y, in place.
  virtual void add(Floats y, Floats x) = 0;
  virtual void add(Floats y, Activation x) = 0;
  virtual void add(Activation y, Activation x) = 0;

  /// Copies between views of the same shape (gathering a column range, for example).
  virtual void copy(Activation x, Activation y) = 0;
  /// y[i] = x[rows[i]].
  virtual void gather_rows(Activation x, const int32_t* rows, Activation y) = 0;
  /// The same of index lists.
  virtual void gather_selection(const Selection& x, const int32_t* rows, const Selection& y) = 0;

  /// Host views, for outputs and traces: row-major float32 without gaps.
  virtual void download(Activation x, float* out) = 0;
  virtual void upload(const float* in, Activation x) = 0;
  virtual void download(Floats x, float* out) = 0;
  virtual void download(Ints x, int32_t* out) = 0;
  virtual void upload(const int32_t* in, Ints x) = 0;
};

}  // namespace glint::ops
