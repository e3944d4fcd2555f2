// Spans and their two forms on the wire: OTLP as JSON and as protobuf (opentelemetry/proto/trace/v1), written
// by hand.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace glint {

struct Span {
  using Value = std::variant<std::string, int64_t, double>;

  std::array<uint8_t, 16> trace_id{};
  std::array<uint8_t, 8> span_id{};
  std::array<uint8_t, 8> parent_span_id{};
  bool has_parent = false;
  std::string trace_state;
  std::string name;
  uint64_t start_ns = 0, end_ns = 0;  // since 1970
  std::vector<std::pair<std::string_view, Value>> attributes;
  std::string error;  // empty: it went well
};

/// Who reports them.
struct SpanSource {
  std::string service_name = "glint";
  std::string version;
};

/// An ExportTraceServiceRequest. Spans are of kind SERVER.
std::string otlp_json(std::span<const Span> spans, const SpanSource& source);
std::string otlp_protobuf(std::span<const Span> spans, const SpanSource& source);

}  // namespace glint
