// The span of one request, with the attributes that vLLM gives it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "server/http.h"
#include "server/trace_context.h"
#include "server/trace_exporter.h"

namespace glint {

/// Where a request's span goes, and the trace that it is part of. Off unless `exporter` is set.
struct RequestTrace {
  std::shared_ptr<TraceExporter> exporter;
  std::optional<TraceContext> parent;
};

/// From the headers traceparent and tracestate. Off without exporter, or if the caller's trace is not
/// sampled.
RequestTrace begin_trace(const std::shared_ptr<TraceExporter>& exporter, const HttpRequest& request);

/// What a request was and did. Times that were not reached are unset.
struct RequestFacts {
  std::string id, model;
  EngineClock::time_point arrived, started, first_token, last_token;
  EngineClock::time_point submitted;
  int64_t prompt_tokens = 0, completion_tokens = 0, max_tokens = 0;
  double temperature = 1, top_p = 1;
  int64_t n = 1, sequences = 1;
  std::string error;  // empty: it has its whole answer
};

/// Hands the span "llm_request" over; it ends now.
void end_trace(const RequestTrace& trace, const RequestFacts& facts);

}  // namespace glint
