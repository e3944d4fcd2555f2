// What is computed from the outcomes of all requests.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/serve/prompt_tokenizer.h"
#include "bench/serve/sample_statistics.h"
#include "bench/serve/stream_outcome.h"

namespace glint::bench {

struct ServeMetrics {
  int64_t completed = 0, failed = 0;
  int64_t input_tokens = 0, output_tokens = 0;
  std::vector<int64_t> output_lens;  // of each request; 0: failed
  double request_throughput = 0, request_goodput = 0;
  double output_throughput = 0, total_throughput = 0;  // tokens/s
  double peak_output_throughput = 0;                   // most chunks in one second of the run
  int64_t peak_concurrency = 0;
  std::vector<double> ttft_s, tpot_s, itl_s, e2el_s;  // samples of what succeeded
};

/// `tokenizer` counts output tokens where the server did not tell them; null: they count as 1. `goodput_ms`:
/// bounds by "ttft", "tpot", "e2el".
ServeMetrics serve_metrics(const std::vector<RequestOutcome>& outcomes, double duration_s,
                           const PromptTokenizer* tokenizer,
                           const std::vector<std::pair<std::string, double>>& goodput_ms);

}  // namespace glint::bench
