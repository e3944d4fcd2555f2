// What the server itself costs: everything around a device whose steps take a fixed time and compute nothing.
#pragma once

#include <cstdint>

#include "bench/report.h"

namespace glint::bench {

struct ServerBenchOptions {
  int streams = 256;
  int64_t tokens = 200;  // of each stream
  int64_t step_ms = 20;
  int64_t prefix_tokens = 100'000;
  int64_t vocab_size = 151'552;  // of the tokenizer of the prefix measurement
  bool quick = false;
};

/// Server CPU for each streamed token and the rate that clients see beside the device's own; time to first
/// token when the whole prompt is cached; the time from submit() to the begin of a step of an idle engine.
/// Forks its clients: call it before the process has threads.
void bench_server(const ServerBenchOptions& options, Report& report);

}  // namespace glint::bench
