// The printed table and the saved result of a benchmark, as vLLM's tools and their readers know them.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/serve/bench_serve.h"
#include "bench/serve/load_client.h"
#include "bench/serve/serve_metrics.h"
#include "bench/serve/speculation_counts.h"

namespace glint::bench {

/// Short requests beside the load.
struct ProbeStatistics {
  int64_t completed = 0, failed = 0;
  double median_ms = 0, p99_ms = 0, max_ms = 0;
};

struct ServeRun {
  LoadResult load;
  ServeMetrics metrics;
  bool has_tokenizer = true;
  std::optional<SpeculationStatistics> speculation;
  std::optional<ProbeStatistics> probe;
  OrderedJson rps_change_events = OrderedJson::array();
};

/// Prints the table and returns the part of the result that comes from the run, in vLLM's order of keys.
OrderedJson print_table(const BenchServeOptions& options, const ServeRun& run, std::ostream& out);

/// A block of our own behind the table: the client, the dataset beside the acceptance, latency of a token.
void print_own_block(const BenchServeOptions& options, const ServeRun& run, std::ostream& out);

/// The keys before the run's own: date, backend, model and traffic.
OrderedJson result_head(const BenchServeOptions& options, const std::string& date,
                        const OrderedJson& tokenizer_id);

/// "openai-10.0qps-concurrency8-GLM-5.3-20260101-120000.json", with the folder before it.
std::string result_file_name(const BenchServeOptions& options, const std::string& date);

/// Saves as the options say; makes the folder. Throws io.
void save_result(const BenchServeOptions& options, OrderedJson result, const std::string& date);

/// The bar of a terminal: " 31%|███▏      | 10/32 [00:12<00:26,  1.21s/it]".
std::string progress_bar_text(size_t done, size_t total, double seconds);

}  // namespace glint::bench
