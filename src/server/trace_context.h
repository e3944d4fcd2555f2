// W3C trace context: what a caller says about the trace that its request belongs to.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace glint {

struct TraceContext {
  std::array<uint8_t, 16> trace_id{};
  std::array<uint8_t, 8> parent_span_id{};
  bool sampled = false;
  std::string state;  // tracestate, as sent; empty if it cannot be passed on (not ASCII, over 512 bytes)
};

/// `traceparent` as https://www.w3.org/TR/trace-context/ writes it: version-trace-parent-flags. Nothing if it
/// breaks the format; then the request begins a trace of its own. Versions to come are read as version 00.
std::optional<TraceContext> parse_trace_context(std::string_view traceparent, std::string_view tracestate);

}  // namespace glint
