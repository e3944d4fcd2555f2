#include "bench/serve/speculation_counts.h"

#include <charconv>
#include <cstdlib>
#include <string>

namespace glint::bench {

namespace {

std::optional<int64_t> position_of(std::string_view line) {
  constexpr std::string_view kLabel = "position=\"";
  const size_t at = line.find(kLabel);
  if (at == std::string_view::npos) return std::nullopt;
  int64_t position = 0;
  const char* begin = line.data() + at + kLabel.size();
  if (std::from_chars(begin, line.data() + line.size(), position).ec != std::errc()) return std::nullopt;
  return position;
}

/// "name{labels} value", behind the labels: a label's value may hold spaces.
std::optional<int64_t> value_of(std::string_view line, size_t name_bytes) {
  size_t at = name_bytes;
  if (at < line.size() && line[at] == '{') at = line.rfind('}') + 1;
  const std::string text(line.substr(std::min(at, line.size())));
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str()) return std::nullopt;
  return static_cast<int64_t>(value);
}

void count_line(std::string_view line, std::string_view name, int64_t value, SpeculationCounts& counts) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("num_drafts")) {
    counts.drafts += value;
  } else if (has("num_draft_tokens")) {
    counts.draft_tokens += value;
  } else if (has("num_accepted_tokens_per_pos")) {
    if (const auto position = position_of(line)) counts.accepted_at[*position] += value;
  } else if (has("num_accepted_tokens")) {
    counts.accepted_tokens += value;
  }
}

}  // namespace

std::optional<SpeculationCounts> read_speculation_counts(std::string_view metrics) {
  SpeculationCounts counts;
  bool found = false;
  while (!metrics.empty()) {
    const size_t end = std::min(metrics.find('\n'), metrics.size());
    const std::string_view line = metrics.substr(0, end);
    metrics.remove_prefix(std::min(end + 1, metrics.size()));
    if (!line.starts_with("vllm:spec_decode")) continue;
    const size_t name_bytes = std::min(line.find_first_of("{ "), line.size());
    const std::string_view name = line.substr(0, name_bytes);
    if (!name.ends_with("_total")) continue;
    found = true;
    if (const auto value = value_of(line, name_bytes)) count_line(line, name, *value, counts);
  }
  return found ? std::optional(counts) : std::nullopt;
}

std::optional<SpeculationStatistics> speculation_between(const std::optional<SpeculationCounts>& before,
                                                         const std::optional<SpeculationCounts>& after) {
  if (!before || !after) return std::nullopt;
  SpeculationStatistics result;
  result.drafts = after->drafts - before->drafts;
  result.draft_tokens = after->draft_tokens - before->draft_tokens;
  result.accepted_tokens = after->accepted_tokens - before->accepted_tokens;
  if (result.draft_tokens <= 0) return std::nullopt;
  const auto accepted = static_cast<double>(result.accepted_tokens);
  result.acceptance_rate = accepted / static_cast<double>(result.draft_tokens) * 100;
  if (result.drafts <= 0) return result;
  result.acceptance_length = 1 + accepted / static_cast<double>(result.drafts);
  std::map<int64_t, int64_t> differences = after->accepted_at;
  for (const auto& [position, value] : before->accepted_at) {
    const auto found = differences.find(position);
    if (found == differences.end()) {
      differences[position] = 0;
    } else {
      found->second -= value;
    }
  }
  for (const auto& [position, value] : differences) {
    result.rate_at.push_back(static_cast<double>(value) / static_cast<double>(result.drafts));
  }
  return result;
}

}  // namespace glint::bench
