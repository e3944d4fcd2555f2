#include "model/rules.h"

#include <cmath>

namespace glint {

ForwardRules rules_of(const ModelConfig& config) {
  ForwardRules rules;
  rules.softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.qk_head_dim())));
  rules.index_scale =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.index_head_dim * config.index_n_heads)));
  rules.latent_norm_eps = config.rms_norm_eps;
  rules.indexer_rope =
      config.indexer_rope_interleave ? ops::RopePairs::interleaved : ops::RopePairs::half_split;
  rules.route = {.num_experts_per_tok = config.num_experts_per_tok,
                 .n_group = config.n_group,
                 .topk_group = config.topk_group,
                 .norm_topk_prob = config.norm_topk_prob,
                 .routed_scaling_factor = config.routed_scaling_factor};
  int64_t source = 0;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (config.has_indexer(layer)) source = layer;
    rules.index_source.push_back(source);
  }
  return rules;
}

}  // namespace glint
