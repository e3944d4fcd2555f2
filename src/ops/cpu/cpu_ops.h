// The CPU backend. An Activation element is a float on the compute type's grid.
#pragma once

#include <memory>

#include "base/cpu_features.h"
#include "base/threads.h"
#include "ops/ops.h"

namespace glint::ops::cpu {

/// What the indexer's scores of a step may take unless a flag says otherwise.
inline constexpr int64_t kIndexerScratchBytes = int64_t{64} << 20;

/// The least budget that select() can keep to: the scores of one row of `context` keys and each thread's tile
/// of `index_heads` heads of `head_dim`.
int64_t indexer_scratch_bytes_min(int64_t context, int64_t index_heads, int64_t head_dim, int threads);

/// `pool` and `arena` must outlive the result. Every call runs on the pool and returns when it is done.
/// select() works in tiles of rows that together take at most `indexer_scratch_bytes`, whatever the rows and
/// the context, if that is not less than indexer_scratch_bytes_min.
std::unique_ptr<Ops> make_cpu_ops(ThreadPool& pool, Isa isa, ComputeDType dtype, Arena& arena,
                                  int64_t indexer_scratch_bytes = kIndexerScratchBytes);

}  // namespace glint::ops::cpu
