// What a server's /metrics say about speculative decoding.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace glint::bench {

struct SpeculationCounts {
  int64_t drafts = 0, draft_tokens = 0, accepted_tokens = 0;
  std::map<int64_t, int64_t> accepted_at;  // by position of the draft
};

/// Sums the counters vllm:spec_decode..._total over their labels; nothing if there is none.
std::optional<SpeculationCounts> read_speculation_counts(std::string_view metrics);

struct SpeculationStatistics {
  int64_t drafts = 0, draft_tokens = 0, accepted_tokens = 0;
  double acceptance_rate = 0;    // percent of the draft tokens
  double acceptance_length = 0;  // tokens of a step with drafts, the bonus token among them
  std::vector<double> rate_at;   // by position: accepted there / drafts
};

/// What happened in between; nothing if nothing was drafted.
std::optional<SpeculationStatistics> speculation_between(const std::optional<SpeculationCounts>& before,
                                                         const std::optional<SpeculationCounts>& after);

}  // namespace glint::bench
