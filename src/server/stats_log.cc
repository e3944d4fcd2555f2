#include "server/stats_log.h"

#include <algorithm>
#include <cstdio>

namespace glint {

namespace {

std::string fixed(double value, int digits) {
  char text[64];
  const int bytes = std::snprintf(text, sizeof text, "%.*f", digits, value);
  return {text, static_cast<size_t>(bytes)};
}

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// What was drafted and confirmed since the last line.
std::string draft_line(const DraftCounts& now, const DraftCounts& before, double seconds) {
  const uint64_t drafts = now.drafts - before.drafts;
  const uint64_t drafted = now.draft_tokens - before.draft_tokens;
  const uint64_t accepted = now.accepted_tokens - before.accepted_tokens;
  std::string positions;
  for (size_t i = 0; i < now.accepted_at.size() && drafted > drafts * i; ++i) {
    positions += (i == 0 ? "" : ", ") + fixed(share(now.accepted_at[i] - before.accepted_at[i], drafts), 3);
  }
  return cat("SpecDecoding metrics: Mean acceptance length: ", fixed(1 + share(accepted, drafts), 2),
             ", Accepted throughput: ", fixed(static_cast<double>(accepted) / seconds, 2),
             " tokens/s, Drafted throughput: ", fixed(static_cast<double>(drafted) / seconds, 2),
             " tokens/s, Accepted: ", accepted, " tokens, Drafted: ", drafted,
             " tokens, Per-position acceptance rate: ", positions,
             ", Avg Draft acceptance rate: ", fixed(100 * share(accepted, drafted), 1), "%");
}

}  // namespace

std::vector<StatsLog::Line> StatsLog::lines(const EngineStats& stats, const ServingMetrics& requests,
                                            double seconds) {
  const uint64_t prompt = requests.prompt_tokens;
  const uint64_t generated = requests.generation_tokens;
  const double prompt_rate = static_cast<double>(prompt - prompt_before_) / seconds;
  const double rate = static_cast<double>(generated - generated_before_) / seconds;
  generation_ = rate;
  const bool idle = stats.running == 0 && stats.waiting == 0 && rate == 0 && prompt_rate == 0;
  const double usage = stats.pages_total > 0 ? 100 * static_cast<double>(stats.pages_used) /
                                                   static_cast<double>(stats.pages_total)
                                             : 0;
  std::vector<Line> lines;
  lines.push_back(
      {idle, cat("Engine 000: Avg prompt throughput: ", fixed(prompt_rate, 1),
                 " tokens/s, Avg generation throughput: ", fixed(rate, 1),
                 " tokens/s, Running: ", stats.running, " reqs, Waiting: ", stats.waiting,
                 " reqs, KV cache usage: ", fixed(usage, 1), "%, Prefix cache hit rate: ",
                 fixed(100 * share(stats.prefix_hits_tokens, stats.prefix_queries_tokens), 1), "%")});
  if (stats.drafts.drafts > before_.drafts.drafts) {
    lines.push_back({false, draft_line(stats.drafts, before_.drafts, seconds)});
  }
  before_ = stats;
  prompt_before_ = prompt;
  generated_before_ = generated;
  return lines;
}

}  // namespace glint
