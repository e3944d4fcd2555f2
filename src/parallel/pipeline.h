// Cutting the decoder layers into pipeline stages.
//
// A layer without an indexer attends to the list that the nearest full layer below it chose in the same step.
// A stage that begins on such a layer needs that list from the stage before. So stages begin on layers that
// own an indexer, which the config says; a model in which every layer owns one may be cut anywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.h"

namespace glint {

/// Layers of each stage, first stage first.
using PipelinePartition = std::vector<int64_t>;

/// The first layer of each stage.
std::vector<int64_t> stage_starts(const PipelinePartition& partition);

/// The layers on which a stage can begin without lists from the stage before: 0 and every full layer.
std::vector<int64_t> aligned_starts(const ModelConfig& config);

/// "10,12,12": throws bad_input, "Invalid partition string: ...", for anything but whole numbers of at least
/// 1 between commas.
PipelinePartition parse_partition(std::string_view text);

/// Throws bad_input: "len(partitions)=... does not match pp_size=...", "sum(partitions)=... does not match
/// num_hidden_layers=...".
void check_partition(const PipelinePartition& partition, int64_t pp_size, const ModelConfig& config);

/// The stages (by number) that begin on a shared layer: with each step they need the index lists, index_topk
/// numbers of 4 bytes a token.
std::vector<int64_t> unaligned_stages(const PipelinePartition& partition, const ModelConfig& config);

/// The partition with as many stages whose starts are all aligned and together move the fewest layers (the
/// lexicographically smallest of several). Throws bad_input if there are fewer aligned starts than stages.
PipelinePartition nearest_aligned(const PipelinePartition& partition, const ModelConfig& config);

/// What the stage of layers [first, first + layers) costs, in any unit; never falls when layers are added.
using StageCost = std::function<int64_t(int64_t first, int64_t layers)>;

/// The aligned partition into `stages` whose dearest stage is cheapest; among equals the lexicographically
/// smallest, which leaves the first stage, where the embedding is, the shortest. Throws bad_input if there
/// are fewer aligned starts than stages.
PipelinePartition balanced_partition(const ModelConfig& config, int64_t stages, const StageCost& cost);

/// "10,12,12".
std::string partition_text(const PipelinePartition& partition);

}  // namespace glint
