// What a model does inside while it reads texts: how much of full attention its index lists hold, and how its
// experts share the work. Independent of the serving engine: the model's own passes, in float32, one text
// after the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/cpu_features.h"
#include "text/tokenizer.h"

namespace glint::bench {

struct ModelStudy {
  /// Per layer: the share of the softmax over all earlier positions that falls on the positions of the list
  /// that the layer uses, mean over heads and rows. Rows: 24 of each text, evenly from the first whose list
  /// cannot hold all positions.
  std::vector<double> mass;
  int64_t mass_rows = 0;  // of one layer
  /// Of the experts of all sparse layers: tokens that came to the one, over what an even share would be;
  /// least and most.
  double load_least = 0, load_most = 0;
  int64_t tokens = 0;
};

/// `threads` 0: one per CPU. `progress(texts done)` is called between texts.
ModelStudy study_model(const std::filesystem::path& folder, const std::vector<std::vector<TokenId>>& texts,
                       int threads, Isa isa, const std::function<void(size_t)>& progress);

}  // namespace glint::bench
