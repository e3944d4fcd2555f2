// What the forward pass does that is not a weight: scales, pairings, order. rules_of gives the model's own
// rules; a test changes one of them and must see a golden turn red.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/config.h"
#include "ops/ops.h"

namespace glint {

struct ForwardRules {
  float softmax_scale = 0;       // (qk_nope_head_dim + qk_rope_head_dim)^-0.5, for the absorbed form too
  float index_scale = 0;         // index_head_dim^-0.5 * index_n_heads^-0.5
  float latent_norm_eps = 0;     // of q_a_layernorm and kv_a_layernorm: the config's rms_norm_eps
  float index_norm_eps = 1e-6F;  // of the indexer's k_norm: fixed, not the config's
  bool index_norm_subtracts_mean = true;  // a true LayerNorm
  ops::RopePairs rope = ops::RopePairs::interleaved;
  ops::RopePairs indexer_rope = ops::RopePairs::interleaved;
  bool cache_normed_latent = true;
  bool mtp_carries_normed_hidden = true;  // the MTP layer's later steps take u after shared_head.norm
  ops::RouteParams route;
  std::vector<int64_t>
      index_source;  // [num_hidden_layers]: the layer whose selection a layer uses, itself if it is full
};

ForwardRules rules_of(const ModelConfig& config);

}  // namespace glint
