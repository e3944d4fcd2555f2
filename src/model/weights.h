// The checkpoint's tensors under the names that the forward pass uses. Matrices are views of the stored
// bytes.
#pragma once

#include <memory>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/plan.h"
#include "ops/ops.h"

namespace glint {

struct IndexerWeights {
  Weight wq_b;                                    // [index_n_heads * index_head_dim, q_lora_rank]
  Weight wk;                                      // [index_head_dim, hidden_size]
  Weight weights_proj;                            // [index_n_heads, hidden_size]
  std::vector<float> k_norm_weight, k_norm_bias;  // [index_head_dim]
};

struct LayerWeights {
  std::vector<float> input_layernorm, post_attention_layernorm;  // [hidden_size]
  Weight q_a_proj;                                               // [q_lora_rank, hidden_size]
  std::vector<float> q_a_layernorm;                              // [q_lora_rank]
  Weight q_b_proj;                                               // [heads * qk_head_dim, q_lora_rank]
  Weight kv_a_proj;                   // [kv_lora_rank + qk_rope_head_dim, hidden_size]
  std::vector<float> kv_a_layernorm;  // [kv_lora_rank]
  Weight kv_b_proj;                   // [heads * (qk_nope_head_dim + v_head_dim), kv_lora_rank]
  Weight o_proj;                      // [hidden_size, heads * v_head_dim]
  IndexerWeights indexer;             // empty on shared layers

  // Dense layers: the MLP. Sparse layers: the shared experts (empty if the model has none).
  Weight gate_proj, up_proj, down_proj;
  // Sparse layers only.
  Weight router;                               // [n_routed_experts, hidden_size]
  std::vector<float> e_score_correction_bias;  // [n_routed_experts]
  std::vector<ops::ExpertWeights> experts;     // [n_routed_experts]
};

struct MtpWeights {
  LayerWeights layer;
  std::vector<float> enorm, hnorm, shared_head_norm;  // [hidden_size]
  Weight eh_proj;                                     // [hidden_size, 2 * hidden_size], embedding first
};

struct ModelWeights {
  std::shared_ptr<const Checkpoint> checkpoint;  // keeps the views alive; none in planned_weights
  ModelConfig config;
  Weight embed_tokens, lm_head;      // [vocab_size, hidden_size]
  std::vector<float> norm;           // [hidden_size]
  std::vector<LayerWeights> layers;  // [num_hidden_layers]
  MtpWeights mtp;                    // if the model has it
};

ModelWeights bind_weights(std::shared_ptr<const Checkpoint> checkpoint);

/// The sizes of the weights of `config` in `format` without any value: for planning on a measuring arena,
/// from the config alone.
ModelWeights planned_weights(const ModelConfig& config, CheckpointFormat format);

}  // namespace glint
