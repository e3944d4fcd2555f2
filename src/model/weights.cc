#include "model/weights.h"

namespace glint {

namespace {

IndexerWeights bind_indexer(const Checkpoint& checkpoint, const std::string& prefix) {
  return {.wq_b = checkpoint.matrix(prefix + "wq_b"),
          .wk = checkpoint.matrix(prefix + "wk"),
          .weights_proj = checkpoint.matrix(prefix + "weights_proj"),
          .k_norm_weight = checkpoint.vector(prefix + "k_norm.weight"),
          .k_norm_bias = checkpoint.vector(prefix + "k_norm.bias")};
}

void bind_mlp(const Checkpoint& checkpoint, const std::string& prefix, LayerWeights& layer) {
  layer.gate_proj = checkpoint.matrix(prefix + "gate_proj");
  layer.up_proj = checkpoint.matrix(prefix + "up_proj");
  layer.down_proj = checkpoint.matrix(prefix + "down_proj");
}

void bind_moe(const Checkpoint& checkpoint, const std::string& prefix, LayerWeights& layer) {
  const ModelConfig& config = checkpoint.config();
  layer.router = checkpoint.matrix(prefix + "gate");
  layer.e_score_correction_bias = checkpoint.vector(prefix + "gate.e_score_correction_bias");
  for (int64_t e = 0; e < config.n_routed_experts; ++e) {
    const std::string expert = prefix + "experts." + std::to_string(e) + ".";
    layer.experts.push_back({checkpoint.matrix(expert + "gate_proj"), checkpoint.matrix(expert + "up_proj"),
                             checkpoint.matrix(expert + "down_proj")});
  }
  if (config.n_shared_experts > 0) bind_mlp(checkpoint, prefix + "shared_experts.", layer);
}

LayerWeights bind_layer(const Checkpoint& checkpoint, int64_t index) {
  const ModelConfig& config = checkpoint.config();
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  const std::string attention = prefix + "self_attn.";
  LayerWeights layer;
  layer.input_layernorm = checkpoint.vector(prefix + "input_layernorm.weight");
  layer.post_attention_layernorm = checkpoint.vector(prefix + "post_attention_layernorm.weight");
  layer.q_a_proj = checkpoint.matrix(attention + "q_a_proj");
  layer.q_a_layernorm = checkpoint.vector(attention + "q_a_layernorm.weight");
  layer.q_b_proj = checkpoint.matrix(attention + "q_b_proj");
  layer.kv_a_proj = checkpoint.matrix(attention + "kv_a_proj_with_mqa");
  layer.kv_a_layernorm = checkpoint.vector(attention + "kv_a_layernorm.weight");
  layer.kv_b_proj = checkpoint.matrix(attention + "kv_b_proj");
  layer.o_proj = checkpoint.matrix(attention + "o_proj");
  if (config.has_indexer(index)) layer.indexer = bind_indexer(checkpoint, attention + "indexer.");
  if (config.is_sparse(index)) {
    bind_moe(checkpoint, prefix + "mlp.", layer);
  } else {
    bind_mlp(checkpoint, prefix + "mlp.", layer);
  }
  return layer;
}

}  // namespace

ModelWeights bind_weights(std::shared_ptr<const Checkpoint> checkpoint) {
  const ModelConfig& config = checkpoint->config();
  ModelWeights weights;
  weights.embed_tokens = checkpoint->matrix("model.embed_tokens");
  weights.lm_head = checkpoint->matrix("lm_head");
  weights.norm = checkpoint->vector("model.norm.weight");
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) weights.layers.push_back(bind_layer(*checkpoint, i));
  if (config.has_mtp()) {
    const std::string prefix = "model.layers." + std::to_string(config.num_hidden_layers) + ".";
    weights.mtp = {.layer = bind_layer(*checkpoint, config.num_hidden_layers),
                   .enorm = checkpoint->vector(prefix + "enorm.weight"),
                   .hnorm = checkpoint->vector(prefix + "hnorm.weight"),
                   .shared_head_norm = checkpoint->vector(prefix + "shared_head.norm.weight"),
                   .eh_proj = checkpoint->matrix(prefix + "eh_proj")};
  }
  weights.checkpoint = std::move(checkpoint);
  return weights;
}

}  // namespace glint
