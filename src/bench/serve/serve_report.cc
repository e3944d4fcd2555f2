#include "bench/serve/serve_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "base/error.h"
#include "text/python_json.h"

namespace glint::bench {

namespace {

constexpr size_t kWidth = 50;
constexpr size_t kLabelWidth = 40;
constexpr size_t kValueWidth = 10;

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string fixed(double value) {
  std::array<char, 64> text{};
  const int bytes = std::snprintf(text.data(), text.size(), "%.2f", value);
  return {text.data(), static_cast<size_t>(bytes)};
}

/// Python's {:c^50}: the odd character goes behind.
std::string centered(const std::string& text, char fill) {
  const size_t missing = kWidth - std::min(kWidth, text.size());
  return std::string(missing / 2, fill) + text + std::string(missing - missing / 2, fill);
}

class Table {
 public:
  explicit Table(std::ostream& out) : out_(out) {}
  void header(const std::string& text, char fill) { out_ << centered(text, fill) << "\n"; }
  void row(const std::string& label, const std::string& value) {
    out_ << padded(label, kLabelWidth) << " " << padded(value, kValueWidth) << "\n";
  }
  void row(const std::string& label, double value) { row(label, fixed(value)); }
  void row(const std::string& label, int64_t value) { row(label, std::to_string(value)); }
  void line(const std::string& text) { out_ << text << "\n"; }

 private:
  std::ostream& out_;
};

std::string percent_word(double percent) {
  return percent == std::floor(percent) ? std::to_string(static_cast<int64_t>(percent))
                                        : python_float_repr(percent);
}

/// The statistics of one metric: printed and put into the result, if it was asked for.
class MetricBlocks {
 public:
  MetricBlocks(const ResultOptions& options, Table& table, OrderedJson& result)
      : options_(options), table_(table), result_(result) {}

  void add(const std::string& key, const std::string& name, const std::string& title,
           const std::vector<double>& samples_s) {
    const auto& wanted = options_.percentile_metrics;
    if (std::find(wanted.begin(), wanted.end(), key) == wanted.end()) return;
    const SampleStatistics statistics(samples_s);
    table_.header(title, '-');
    const double mean = statistics.mean() * 1000;
    const double median = statistics.median() * 1000;
    table_.row("Mean " + name + " (ms):", mean);
    table_.row("Median " + name + " (ms):", median);
    result_["mean_" + key + "_ms"] = mean;
    result_["median_" + key + "_ms"] = median;
    result_["std_" + key + "_ms"] = statistics.standard_deviation() * 1000;
    for (const double percent : options_.percentiles) {
      const double value = statistics.percentile(percent) * 1000;
      const std::string word = percent_word(percent);
      table_.row("P" + word + " " + name + " (ms):", value);
      result_["p" + word + "_" + key + "_ms"] = value;
    }
  }

 private:
  const ResultOptions& options_;
  Table& table_;
  OrderedJson& result_;
};

void print_head(const BenchServeOptions& options, const ServeRun& run, Table& table) {
  const ServeMetrics& metrics = run.metrics;
  table.header(" Serving Benchmark Result ", '=');
  table.row("Successful requests:", metrics.completed);
  table.row("Failed requests:", metrics.failed);
  if (options.max_concurrency) table.row("Maximum request concurrency:", *options.max_concurrency);
  if (!std::isinf(options.traffic.request_rate)) {
    table.row("Request rate configured (RPS):", options.traffic.request_rate);
  }
  table.row("Benchmark duration (s):", run.load.duration_s);
  table.row("Total input tokens:", metrics.input_tokens);
  if (run.has_tokenizer) table.row("Total generated tokens:", metrics.output_tokens);
  table.row("Request throughput (req/s):", metrics.request_throughput);
  if (!options.result.goodput_ms.empty()) table.row("Request goodput (req/s):", metrics.request_goodput);
  if (run.has_tokenizer) {
    table.row("Output token throughput (tok/s):", metrics.output_throughput);
    table.row("Peak output token throughput (tok/s):", metrics.peak_output_throughput);
  }
  table.row("Peak concurrent requests:", static_cast<double>(metrics.peak_concurrency));
  if (run.has_tokenizer) table.row("Total token throughput (tok/s):", metrics.total_throughput);
}

template <class Get>
OrderedJson list_of(const std::vector<RequestOutcome>& outcomes, const Get& get) {
  OrderedJson list = OrderedJson::array();
  for (const RequestOutcome& outcome : outcomes) list.push_back(get(outcome));
  return list;
}

OrderedJson run_result(const BenchServeOptions& options, const ServeRun& run) {
  const ServeMetrics& metrics = run.metrics;
  const auto& outcomes = run.load.outcomes;
  OrderedJson result;
  result["duration"] = run.load.duration_s;
  result["completed"] = metrics.completed;
  result["failed"] = metrics.failed;
  result["total_input_tokens"] = metrics.input_tokens;
  result["total_output_tokens"] = metrics.output_tokens;
  result["request_throughput"] = metrics.request_throughput;
  result["request_goodput"] = nullptr;
  if (!options.result.goodput_ms.empty()) result["request_goodput"] = metrics.request_goodput;
  result["output_throughput"] = metrics.output_throughput;
  result["total_token_throughput"] = metrics.total_throughput;
  result["input_lens"] = list_of(outcomes, [](const auto& one) { return one.prompt_tokens; });
  result["output_lens"] = metrics.output_lens;
  result["ttfts"] = list_of(outcomes, [](const auto& one) { return one.ttft_s; });
  result["itls"] = list_of(outcomes, [](const auto& one) { return OrderedJson(one.itl_s); });
  result["latencies"] = list_of(outcomes, [](const auto& one) { return one.latency_s; });
  result["start_times"] = list_of(outcomes, [](const auto& one) { return one.start_s; });
  result["queue_times"] = list_of(outcomes, [](const auto& one) { return one.queue_s; });
  result["generated_texts"] = list_of(outcomes, [](const auto& one) { return one.text; });
  result["errors"] = list_of(outcomes, [](const auto& one) { return one.error; });
  result["max_output_tokens_per_s"] = metrics.peak_output_throughput;
  result["max_concurrent_requests"] = metrics.peak_concurrency;
  result["rtfx"] = 0.0;
  return result;
}

void add_probe(const ServeRun& run, Table& table, OrderedJson& result) {
  if (!run.probe) return;
  table.header("Probe Requests", '-');
  table.row("Probe requests completed:", run.probe->completed);
  table.row("Probe requests failed:", run.probe->failed);
  table.row("Median probe E2EL (ms):", run.probe->median_ms);
  table.row("P99 probe E2EL (ms):", run.probe->p99_ms);
  table.row("Max probe E2EL (ms):", run.probe->max_ms);
  result["probe_completed"] = run.probe->completed;
  result["probe_failed"] = run.probe->failed;
  result["probe_median_e2el_ms"] = run.probe->median_ms;
  result["probe_p99_e2el_ms"] = run.probe->p99_ms;
  result["probe_max_e2el_ms"] = run.probe->max_ms;
}

void add_speculation_keys(const SpeculationStatistics& counts, OrderedJson& result) {
  result["spec_decode_acceptance_rate"] = counts.acceptance_rate;
  result["spec_decode_acceptance_length"] = counts.acceptance_length;
  result["spec_decode_num_drafts"] = counts.drafts;
  result["spec_decode_draft_tokens"] = counts.draft_tokens;
  result["spec_decode_accepted_tokens"] = counts.accepted_tokens;
  result["spec_decode_per_position_acceptance_rates"] = counts.rate_at;
}

void print_speculation(const SpeculationStatistics& counts, Table& table) {
  table.header("Speculative Decoding", '-');
  table.row("Acceptance rate (%):", counts.acceptance_rate);
  table.row("Acceptance length:", counts.acceptance_length);
  table.row("Drafts:", counts.drafts);
  table.row("Draft tokens:", counts.draft_tokens);
  table.row("Accepted tokens:", counts.accepted_tokens);
  if (counts.rate_at.empty()) return;
  table.line("Per-position acceptance (%):");
  for (size_t i = 0; i < counts.rate_at.size(); ++i) {
    table.row(cat("  Position ", i, ":"), counts.rate_at[i] * 100);
  }
}

/// Time in the client's queue, and latencies with it; for runs with a bound on concurrency.
void add_queue_blocks(const BenchServeOptions& options, const ServeRun& run, MetricBlocks& blocks) {
  if (!options.max_concurrency) return;
  std::vector<double> queue_s;
  std::vector<double> whole_s;
  for (const RequestOutcome& outcome : run.load.outcomes) {
    if (!outcome.success) continue;
    queue_s.push_back(outcome.queue_s);
    whole_s.push_back(outcome.latency_s + outcome.queue_s);
  }
  blocks.add("client_queue_time", "Client Queue Time", "Client-side Queueing", queue_s);
  if (std::isinf(options.traffic.request_rate)) return;
  blocks.add("e2el_including_client_queue", "E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency",
             whole_s);
}

}  // namespace

OrderedJson print_table(const BenchServeOptions& options, const ServeRun& run, std::ostream& out) {
  Table table(out);
  print_head(options, run, table);
  OrderedJson result = run_result(options, run);
  add_probe(run, table, result);
  if (!run.rps_change_events.empty()) result["rps_change_events"] = run.rps_change_events;
  if (run.speculation) add_speculation_keys(*run.speculation, result);
  MetricBlocks blocks(options.result, table, result);
  if (run.has_tokenizer) {
    blocks.add("ttft", "TTFT", "Time to First Token", run.metrics.ttft_s);
    blocks.add("tpot", "TPOT", "Time per Output Token (excl. 1st token)", run.metrics.tpot_s);
    blocks.add("itl", "ITL", "Inter-token Latency", run.metrics.itl_s);
  }
  blocks.add("e2el", "E2EL", "End-to-end Latency", run.metrics.e2el_s);
  add_queue_blocks(options, run, blocks);
  if (run.speculation) print_speculation(*run.speculation, table);
  table.line(std::string(kWidth, '='));
  return result;
}

void print_own_block(const BenchServeOptions& options, const ServeRun& run, std::ostream& out) {
  double first_s = 0;
  double last_first_s = 0;
  double gaps_s = 0;
  int64_t later_tokens = 0;
  int64_t prompt_tokens = 0;
  bool any = false;
  for (size_t i = 0; i < run.load.outcomes.size(); ++i) {
    const RequestOutcome& outcome = run.load.outcomes[i];
    if (!outcome.success) continue;
    const double token_s = outcome.start_s + outcome.ttft_s;
    first_s = any ? std::min(first_s, outcome.start_s) : outcome.start_s;
    last_first_s = any ? std::max(last_first_s, token_s) : token_s;
    any = true;
    gaps_s += outcome.latency_s - outcome.ttft_s;
    later_tokens += std::max<int64_t>(0, run.metrics.output_lens[i] - 1);
    prompt_tokens += outcome.prompt_tokens;
  }
  const std::string& name = options.dataset.name;
  out << "client: " << (options.clock == ChunkClock::native ? "native" : "compat") << "; dataset: " << name
      << ", seed " << options.seed;
  if (run.speculation) {
    out << "; acceptance length on " << name << ": " << fixed(run.speculation->acceptance_length);
  }
  out << "\n";
  if (later_tokens > 0) {
    out << "latency of a token behind the first, over all requests (ms): "
        << fixed(gaps_s * 1000 / static_cast<double>(later_tokens)) << "\n";
  }
  if (any && last_first_s > first_s) {
    out << "prompt tokens/s until the last first token: "
        << fixed(static_cast<double>(prompt_tokens) / (last_first_s - first_s)) << "\n";
  }
}

}  // namespace glint::bench
