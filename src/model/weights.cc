#include "model/weights.h"

#include <unordered_map>

#include "checkpoint/plan.h"

namespace glint {

namespace {

template <class Source>
IndexerWeights bind_indexer(const Source& checkpoint, const std::string& prefix) {
  return {.wq_b = checkpoint.matrix(prefix + "wq_b"),
          .wk = checkpoint.matrix(prefix + "wk"),
          .weights_proj = checkpoint.matrix(prefix + "weights_proj"),
          .k_norm_weight = checkpoint.vector(prefix + "k_norm.weight"),
          .k_norm_bias = checkpoint.vector(prefix + "k_norm.bias")};
}

template <class Source>
void bind_mlp(const Source& checkpoint, const std::string& prefix, LayerWeights& layer) {
  layer.gate_proj = checkpoint.matrix(prefix + "gate_proj");
  layer.up_proj = checkpoint.matrix(prefix + "up_proj");
  layer.down_proj = checkpoint.matrix(prefix + "down_proj");
}

template <class Source>
void bind_moe(const Source& checkpoint, const std::string& prefix, LayerWeights& layer) {
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

template <class Source>
LayerWeights bind_layer(const Source& checkpoint, int64_t index) {
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

template <class Source>
ModelWeights bind_model(const Source& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  ModelWeights weights;
  weights.config = config;
  weights.embed_tokens = checkpoint.matrix("model.embed_tokens");
  weights.lm_head = checkpoint.matrix("lm_head");
  weights.norm = checkpoint.vector("model.norm.weight");
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) weights.layers.push_back(bind_layer(checkpoint, i));
  if (config.has_mtp()) {
    const std::string prefix = "model.layers." + std::to_string(config.num_hidden_layers) + ".";
    weights.mtp = {.layer = bind_layer(checkpoint, config.num_hidden_layers),
                   .enorm = checkpoint.vector(prefix + "enorm.weight"),
                   .hnorm = checkpoint.vector(prefix + "hnorm.weight"),
                   .shared_head_norm = checkpoint.vector(prefix + "shared_head.norm.weight"),
                   .eh_proj = checkpoint.matrix(prefix + "eh_proj")};
  }
  return weights;
}

/// Matrices and vectors with the sizes that the config demands and nothing in them.
class Shapes {
 public:
  Shapes(const ModelConfig& config, CheckpointFormat format) : config_(config) {
    for (const ModelTensor& tensor : model_tensors(config)) {
      if (tensor.shape.size() != 2) continue;
      WeightFormat stored = WeightFormat::bf16;
      if (is_stored_fp8(tensor, format)) stored = WeightFormat::fp8_block;
      if (is_stored_nvfp4(tensor, config, format)) stored = WeightFormat::nvfp4;
      const std::string module =
          tensor.name.substr(0, tensor.name.size() - std::string_view(".weight").size());
      matrices_[module] = {
          .format = stored, .rows = tensor.shape[0], .cols = tensor.shape[1], .data = &kNothing};
    }
  }
  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] Weight matrix(const std::string& module) const { return matrices_.at(module); }
  [[nodiscard]] static std::vector<float> vector(const std::string& /*name*/) { return {}; }

 private:
  static constexpr std::byte kNothing{};  // a place that tells a matrix from one that is not there
  const ModelConfig& config_;
  std::unordered_map<std::string, Weight> matrices_;
};

}  // namespace

ModelWeights bind_weights(std::shared_ptr<const Checkpoint> checkpoint) {
  ModelWeights weights = bind_model(*checkpoint);
  weights.checkpoint = std::move(checkpoint);
  return weights;
}

ModelWeights planned_weights(const ModelConfig& config, CheckpointFormat format) {
  return bind_model(Shapes(config, format));
}

}  // namespace glint
