// The model that a config.json describes, checked. Names are the file's own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace glint {

/// What the forward pass needs of config.json. After parse_model_config every field is consistent with the
/// others: code behind it need not check again.
struct ModelConfig {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_nextn_predict_layers = 0;  // 0 or 1: the MTP layer is stored as layer `num_hidden_layers`
  int64_t intermediate_size = 0;
  int64_t moe_intermediate_size = 0;
  int64_t max_position_embeddings = 0;

  int64_t num_attention_heads = 0;
  int64_t q_lora_rank = 0;
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  double rope_theta = 0;
  float rms_norm_eps = 0;

  int64_t index_n_heads = 0;
  int64_t index_head_dim = 0;
  int64_t index_topk = 0;
  bool indexer_rope_interleave = true;
  bool index_share_for_mtp_iteration = true;

  int64_t n_routed_experts = 0;
  int64_t num_experts_per_tok = 0;
  int64_t n_shared_experts = 0;  // 0: no shared expert
  int64_t n_group = 1;
  int64_t topk_group = 1;
  bool norm_topk_prob = true;
  float routed_scaling_factor = 1.0F;

  std::vector<bool> indexer_full;  // [num_hidden_layers]: the layer owns an indexer; layer 0 always does
  std::vector<bool> mlp_sparse;    // [num_hidden_layers]: MoE, else dense

  std::vector<int32_t> eos_token_id;
  int32_t pad_token_id = -1;  // -1: none

  [[nodiscard]] int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  [[nodiscard]] bool has_mtp() const { return num_nextn_predict_layers > 0; }
  /// Decoder layers plus the MTP layer.
  [[nodiscard]] int64_t layers_with_mtp() const { return num_hidden_layers + num_nextn_predict_layers; }
  /// True for a layer with an indexer of its own; the MTP layer always has one.
  [[nodiscard]] bool has_indexer(int64_t layer) const {
    return layer >= num_hidden_layers || indexer_full[static_cast<size_t>(layer)];
  }
  [[nodiscard]] bool is_sparse(int64_t layer) const {
    return layer >= num_hidden_layers || mlp_sparse[static_cast<size_t>(layer)];
  }
};

/// Parses and checks the text of a config.json; `what` names it in errors. Throws bad_input or unsupported
/// with the key, its value and what is possible. Honours indexer_types, else index_topk_pattern, else freq
/// and offset (full iff max(i - offset + 1, 0) % freq == 0).
ModelConfig parse_model_config(std::string_view text, std::string_view what);

/// Reads `path` (a config.json, or a folder that holds one).
ModelConfig load_model_config(const std::filesystem::path& path);

}  // namespace glint
