// GET /metrics: vLLM's names, SGLang's for its dashboards, and our own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/http_server.h"
#include "server/serving_metrics.h"
#include "server/trace_exporter.h"

namespace glint {

/// Which families of names are shown; ours always are.
struct MetricsCompat {
  bool vllm = true;
  bool sglang = false;
};

/// "vllm", "sglang" or both with a comma. Throws bad_input.
MetricsCompat parse_metrics_compat(std::string_view text);

struct MetricsState {
  std::string_view model_name;
  const ServingMetrics* requests = nullptr;
  std::optional<EngineStats> engine;  // nothing while the model loads
  EngineLimits limits;
  std::vector<double> expert_load;  // Engine::expert_load()
  HttpCounts http;
  uint64_t steps_over_limit = 0;
  double generation_tokens_per_s = 0;  // over the last log interval
  std::optional<TraceCounts> traces;   // with --otlp-traces-endpoint
};

/// The page in the text format 0.0.4.
std::string metrics_page(const MetricsState& state, const MetricsCompat& compat);

}  // namespace glint
