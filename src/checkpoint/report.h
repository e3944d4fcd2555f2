// What `glint inspect` prints: a config, its layers and its tensors in words and numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/plan.h"

namespace glint {

/// "755,617,140,416".
std::string grouped_digits(int64_t number);

/// Ascending numbers in short: "0-2, 6-74 step 4"; "none" if empty.
std::string ranges_text(const std::vector<int64_t>& numbers);

/// The model's sizes, one topic a line.
std::string config_report(const ModelConfig& config);

/// Which layers are dense or sparse, and own or share an indexer.
std::string layer_report(const ModelConfig& config);

/// A line for each dtype, then "118,629 tensors, 755,617,140,416 bytes".
std::string tensor_report(const TensorCounts& counts);

}  // namespace glint
