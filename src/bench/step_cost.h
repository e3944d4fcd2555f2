// What one step of the model has to read and to multiply, counted from the config and the stored weights.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/weights.h"

namespace glint::bench {

struct StepCost {
  double bytes = 0;          // weights and cache rows that are read
  double multiply_adds = 0;  // of products; element-wise work is not counted
};

/// Which experts the rows of a step chose, by layer (empty sets on dense layers).
using ChosenExperts = std::vector<std::set<int32_t>>;

/// A step of `contexts.size()` rows, row i at context contexts[i] (its own token included), of which `logits`
/// give logits. `index_key_bytes` and `latent_row_bytes` are the cache's, per token and layer.
StepCost step_cost(const ModelWeights& weights, const std::vector<int64_t>& contexts, int64_t logits,
                   const ChosenExperts& chosen, int64_t index_key_bytes, int64_t latent_row_bytes);

}  // namespace glint::bench
