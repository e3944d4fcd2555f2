#include "server/request_trace.h"

#include <openssl/rand.h>

#include <chrono>

#include "base/error.h"

namespace glint {

namespace {

constexpr EngineClock::time_point kUnset{};

template <size_t kCount>
void fill_random(std::array<uint8_t, kCount>& bytes) {
  GLINT_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1);
}

uint64_t wall_ns(EngineClock::time_point time) {
  const auto ago = EngineClock::now() - time;
  const auto then = std::chrono::system_clock::now().time_since_epoch() - ago;
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(then).count());
}

/// Adds `to` - `from` in seconds, if both were reached.
void add_time(Span& span, std::string_view name, EngineClock::time_point from, EngineClock::time_point to) {
  if (from == kUnset || to == kUnset) return;
  span.attributes.emplace_back(name, std::chrono::duration<double>(to - from).count());
}

}  // namespace

RequestTrace begin_trace(const std::shared_ptr<TraceExporter>& exporter, const HttpRequest& request) {
  if (!exporter) return {};
  RequestTrace trace{exporter,
                     parse_trace_context(request.header("traceparent"), request.header("tracestate"))};
  if (trace.parent && !trace.parent->sampled) return {};
  return trace;
}

void end_trace(const RequestTrace& trace, const RequestFacts& facts) {
  if (!trace.exporter) return;
  Span span;
  span.name = "llm_request";
  fill_random(span.span_id);
  if (trace.parent) {
    span.trace_id = trace.parent->trace_id;
    span.parent_span_id = trace.parent->parent_span_id;
    span.has_parent = true;
    span.trace_state = trace.parent->state;
  } else {
    fill_random(span.trace_id);
  }
  const auto now = EngineClock::now();
  span.start_ns = wall_ns(facts.arrived);
  span.end_ns = wall_ns(now);
  span.error = facts.error;
  span.attributes = {{"gen_ai.request.id", facts.id},
                     {"gen_ai.response.model", facts.model},
                     {"gen_ai.request.max_tokens", facts.max_tokens},
                     {"gen_ai.request.temperature", facts.temperature},
                     {"gen_ai.request.top_p", facts.top_p},
                     {"gen_ai.request.n", facts.n},
                     {"gen_ai.usage.num_sequences", facts.sequences},
                     {"gen_ai.usage.prompt_tokens", facts.prompt_tokens},
                     {"gen_ai.usage.completion_tokens", facts.completion_tokens}};
  add_time(span, "gen_ai.latency.time_in_queue", facts.submitted, facts.started);
  add_time(span, "gen_ai.latency.time_to_first_token", facts.arrived, facts.first_token);
  add_time(span, "gen_ai.latency.e2e", facts.arrived, now);
  add_time(span, "gen_ai.latency.time_in_scheduler", facts.started, facts.last_token);
  add_time(span, "gen_ai.latency.time_in_model_prefill", facts.started, facts.first_token);
  add_time(span, "gen_ai.latency.time_in_model_decode", facts.first_token, facts.last_token);
  trace.exporter->submit(std::move(span));
}

}  // namespace glint
