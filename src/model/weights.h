// The checkpoint's tensors under the names that the forward pass uses. Matrices are views of the stored
// bytes.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/plan.h"
#include "ops/ops.h"

namespace glint {

/// A vector of float32: the host's own values, and where a device has its copy of them.
class FloatVector {
 public:
  FloatVector() = default;
  FloatVector(std::vector<float> values) : values_(std::move(values)) {}  // NOLINT: a vector is one

  /// What the operations of the model's device take.
  [[nodiscard]] const float* data() const { return on_device_ != nullptr ? on_device_ : values_.data(); }
  [[nodiscard]] const std::vector<float>& values() const { return values_; }
  void set_device(const float* address) { on_device_ = address; }

 private:
  std::vector<float> values_;
  const float* on_device_ = nullptr;
};

struct IndexerWeights {
  Weight wq_b;                             // [index_n_heads * index_head_dim, q_lora_rank]
  Weight wk;                               // [index_head_dim, hidden_size]
  Weight weights_proj;                     // [index_n_heads, hidden_size]
  FloatVector k_norm_weight, k_norm_bias;  // [index_head_dim]
};

struct LayerWeights {
  FloatVector input_layernorm, post_attention_layernorm;  // [hidden_size]
  Weight q_a_proj;                                        // [q_lora_rank, hidden_size]
  FloatVector q_a_layernorm;                              // [q_lora_rank]
  Weight q_b_proj;                                        // [heads * qk_head_dim, q_lora_rank]
  Weight kv_a_proj;                                       // [kv_lora_rank + qk_rope_head_dim, hidden_size]
  FloatVector kv_a_layernorm;                             // [kv_lora_rank]
  Weight kv_b_proj;        // [heads * (qk_nope_head_dim + v_head_dim), kv_lora_rank]
  Weight o_proj;           // [hidden_size, heads * v_head_dim]
  IndexerWeights indexer;  // empty on shared layers

  // Dense layers: the MLP. Sparse layers: the shared experts (empty if the model has none).
  Weight gate_proj, up_proj, down_proj;
  // Sparse layers only.
  Weight router;                            // [n_routed_experts, hidden_size]
  FloatVector e_score_correction_bias;      // [n_routed_experts]
  std::vector<ops::ExpertWeights> experts;  // [n_routed_experts]
};

struct MtpWeights {
  LayerWeights layer;
  FloatVector enorm, hnorm, shared_head_norm;  // [hidden_size]
  Weight eh_proj;                              // [hidden_size, 2 * hidden_size], embedding first
};

struct ModelWeights {
  std::shared_ptr<const Checkpoint> checkpoint;  // keeps the views alive; none in planned_weights
  ModelConfig config;
  Weight embed_tokens, lm_head;      // [vocab_size, hidden_size]
  FloatVector norm;                  // [hidden_size]
  std::vector<LayerWeights> layers;  // [num_hidden_layers]
  MtpWeights mtp;                    // if the model has it
};

/// Calls on_matrix(Weight&), on_vector(FloatVector&), on_kv_b(Weight&) for kv_b_proj and
/// on_experts(std::vector<ops::ExpertWeights>&) for all that the model has, in a fixed order. Experts'
/// matrices are left to on_experts.
template <class Matrix, class Vector, class KvB, class Experts>
void each_weight(ModelWeights& weights, const Matrix& on_matrix, const Vector& on_vector, const KvB& on_kv_b,
                 const Experts& on_experts);

ModelWeights bind_weights(std::shared_ptr<const Checkpoint> checkpoint);

/// The sizes of the weights of `config` in `format` without any value: for planning on a measuring arena,
/// from the config alone.
ModelWeights planned_weights(const ModelConfig& config, CheckpointFormat format);

template <class Matrix, class Vector, class KvB, class Experts>
void each_weight(ModelWeights& weights, const Matrix& on_matrix, const Vector& on_vector, const KvB& on_kv_b,
                 const Experts& on_experts) {
  const auto matrices = [&](auto&... all) { (..., (all.empty() ? void() : void(on_matrix(all)))); };
  const auto vectors = [&](auto&... all) { (..., (all.values().empty() ? void() : void(on_vector(all)))); };
  const auto layer = [&](LayerWeights& l) {
    vectors(l.input_layernorm, l.post_attention_layernorm, l.q_a_layernorm, l.kv_a_layernorm,
            l.indexer.k_norm_weight, l.indexer.k_norm_bias, l.e_score_correction_bias);
    matrices(l.q_a_proj, l.q_b_proj, l.kv_a_proj, l.o_proj, l.indexer.wq_b, l.indexer.wk,
             l.indexer.weights_proj, l.gate_proj, l.up_proj, l.down_proj, l.router);
    if (!l.kv_b_proj.empty()) on_kv_b(l.kv_b_proj);
    if (!l.experts.empty()) on_experts(l.experts);
  };
  matrices(weights.embed_tokens, weights.lm_head);
  vectors(weights.norm);
  for (LayerWeights& l : weights.layers) layer(l);
  layer(weights.mtp.layer);
  vectors(weights.mtp.enorm, weights.mtp.hnorm, weights.mtp.shared_head_norm);
  matrices(weights.mtp.eh_proj);
}

}  // namespace glint
