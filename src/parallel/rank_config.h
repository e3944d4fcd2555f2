// The model that one rank of one pipeline stage computes, as a config of its own: its layers, its heads, its
// slices.
#pragma once

#include "checkpoint/config.h"
#include "parallel/shares.h"

namespace glint {

/// Layers [first, first + layers) of `config` with the widths that a rank of `layout` has; for the sizes of
/// what it computes, not for its results. Heads: a rank attends with the heads of all ranks that it shares
/// the cache's stripes with. The first layer counts as full (a stage that begins on a shared layer still
/// holds a list). The MTP layer is part of it if `with_mtp`. vocab_size is the part of the head.
ModelConfig rank_config(const ModelConfig& config, const RankLayout& layout, int64_t first, int64_t layers,
                        bool with_mtp);

}  // namespace glint
