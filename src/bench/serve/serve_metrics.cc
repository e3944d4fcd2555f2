#include "bench/serve/serve_metrics.h"

#include <algorithm>
#include <cmath>

namespace glint::bench {

namespace {

int64_t output_len_of(const RequestOutcome& outcome, const PromptTokenizer* tokenizer) {
  if (outcome.output_tokens > 0) return outcome.output_tokens;
  return tokenizer == nullptr ? 1 : tokenizer->count(outcome.text);
}

bool is_good(const RequestOutcome& outcome, double tpot_s,
             const std::vector<std::pair<std::string, double>>& bounds_ms) {
  return std::all_of(bounds_ms.begin(), bounds_ms.end(), [&](const auto& bound) {
    const double limit_s = bound.second / 1000;
    if (bound.first == "ttft") return outcome.ttft_s <= limit_s;
    if (bound.first == "tpot") return tpot_s <= limit_s;
    return outcome.latency_s <= limit_s;
  });
}

/// Chunks by the second that they came in, counted from the first start.
double busiest_second(const std::vector<const RequestOutcome*>& outcomes) {
  double begin_s = outcomes.front()->start_s;
  for (const RequestOutcome* outcome : outcomes) begin_s = std::min(begin_s, outcome->start_s);
  std::vector<double> chunks;
  const auto count = [&](double at_s) {
    const auto second = static_cast<size_t>(std::max(0.0, at_s - begin_s));
    if (chunks.size() <= second) chunks.resize(second + 1);
    chunks[second] += 1;
  };
  for (const RequestOutcome* outcome : outcomes) {
    double at_s = outcome->start_s + outcome->ttft_s;
    count(at_s);
    for (const double gap_s : outcome->itl_s) count(at_s += gap_s);
  }
  return *std::max_element(chunks.begin(), chunks.end());
}

/// Most half-open intervals [start, end) that hold one moment.
int64_t most_at_once(const std::vector<const RequestOutcome*>& outcomes) {
  std::vector<std::pair<double, int>> events;
  for (const RequestOutcome* outcome : outcomes) {
    events.emplace_back(outcome->start_s, 1);
    events.emplace_back(outcome->start_s + outcome->latency_s, -1);
  }
  std::sort(events.begin(), events.end());
  int64_t now = 0;
  int64_t most = 0;
  for (const auto& [at_s, change] : events) most = std::max(most, now += change);
  return most;
}

}  // namespace

ServeMetrics serve_metrics(const std::vector<RequestOutcome>& outcomes, double duration_s,
                           const PromptTokenizer* tokenizer,
                           const std::vector<std::pair<std::string, double>>& goodput_ms) {
  ServeMetrics metrics;
  int64_t good = 0;
  std::vector<const RequestOutcome*> successes;
  for (const RequestOutcome& outcome : outcomes) {
    if (!outcome.success) {
      ++metrics.failed;
      metrics.output_lens.push_back(0);
      continue;
    }
    successes.push_back(&outcome);
    const int64_t length = output_len_of(outcome, tokenizer);
    metrics.output_lens.push_back(length);
    metrics.output_tokens += length;
    metrics.input_tokens += outcome.prompt_tokens;
    double tpot_s = 0;
    if (length > 1) {
      tpot_s = (outcome.latency_s - outcome.ttft_s) / static_cast<double>(length - 1);
      metrics.tpot_s.push_back(tpot_s);
    }
    metrics.ttft_s.push_back(outcome.ttft_s);
    metrics.e2el_s.push_back(outcome.latency_s);
    metrics.itl_s.insert(metrics.itl_s.end(), outcome.itl_s.begin(), outcome.itl_s.end());
    if (!goodput_ms.empty() && is_good(outcome, tpot_s, goodput_ms)) ++good;
  }
  metrics.completed = static_cast<int64_t>(successes.size());
  const auto per_second = [&](int64_t count) { return static_cast<double>(count) / duration_s; };
  metrics.request_throughput = per_second(metrics.completed);
  metrics.request_goodput = per_second(good);
  metrics.output_throughput = per_second(metrics.output_tokens);
  metrics.total_throughput = per_second(metrics.input_tokens + metrics.output_tokens);
  if (!successes.empty()) {
    metrics.peak_output_throughput = busiest_second(successes);
    metrics.peak_concurrency = most_at_once(successes);
  }
  return metrics;
}

}  // namespace glint::bench
