// A memory plan in words: a table, one line for each device, JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/memory_plan.h"

namespace glint {

/// Every part of every stage in GiB, one column a stage, then what fits.
std::string plan_table(const MemoryPlan& plan);

/// "memory plan (GPU 0-7, GiB): weights 89.9 | kv 43.8 (860k tok) | workspace 2.7 [indexer 2.0 ...] | ... |
/// free 0.1", one for each stage; the ranks of a stage are alike.
std::vector<std::string> plan_lines(const MemoryPlan& plan);

/// What is logged at a server's start under the names that people grep for.
std::vector<std::string> startup_lines(const MemoryPlan& plan);

/// The line that people grep for who come from SGLang, "max_total_num_tokens=..., chunked_prefill_size=...".
std::string sglang_startup_line(const MemoryPlan& plan);

/// The same as the table, in bytes.
OrderedJson plan_json(const MemoryPlan& plan);

/// Bytes of the cache for one token on one rank of the stage, as the cache is striped (rounded down).
int64_t rank_bytes_per_token(const MemoryPlan& plan, const StagePlan& stage);

}  // namespace glint
