#include "parallel/rank_config.h"

namespace glint {

ModelConfig rank_config(const ModelConfig& config, const RankLayout& layout, int64_t first, int64_t layers,
                        bool with_mtp) {
  const int64_t ranks = layout.tensor_parallel;
  ModelConfig mine = config;
  mine.num_hidden_layers = layers;
  mine.num_nextn_predict_layers = with_mtp ? config.num_nextn_predict_layers : 0;
  mine.indexer_full.assign(config.indexer_full.begin() + first, config.indexer_full.begin() + first + layers);
  mine.mlp_sparse.assign(config.mlp_sparse.begin() + first, config.mlp_sparse.begin() + first + layers);
  mine.indexer_full[0] = true;
  mine.vocab_size /= ranks;
  mine.num_attention_heads = config.num_attention_heads / ranks * layout.context_parallel;
  mine.intermediate_size /= ranks;
  if (!layout.expert_parallel) mine.moe_intermediate_size /= ranks;
  return mine;
}

}  // namespace glint
