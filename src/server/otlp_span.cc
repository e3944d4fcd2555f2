#include "server/otlp_span.h"

#include <cstring>

#include "base/json.h"

namespace glint {

namespace {

constexpr int kKindServer = 2;
constexpr int kStatusError = 2;
constexpr uint32_t kSampledFlag = 1;

// ------------------------------------------------------------------------------------------------------ JSON

template <size_t kCount>
std::string hex(const std::array<uint8_t, kCount>& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

OrderedJson json_value(const Span::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return {{"stringValue", *text}};
  // 64-bit integers are strings in protobuf's JSON.
  if (const auto* number = std::get_if<int64_t>(&value)) return {{"intValue", std::to_string(*number)}};
  return {{"doubleValue", std::get<double>(value)}};
}

OrderedJson json_attribute(std::string_view key, const Span::Value& value) {
  OrderedJson attribute;
  attribute["key"] = key;
  attribute["value"] = json_value(value);
  return attribute;
}

OrderedJson json_span(const Span& span) {
  OrderedJson json;
  json["traceId"] = hex(span.trace_id);
  json["spanId"] = hex(span.span_id);
  if (!span.trace_state.empty()) json["traceState"] = span.trace_state;
  if (span.has_parent) json["parentSpanId"] = hex(span.parent_span_id);
  json["flags"] = kSampledFlag;
  json["name"] = span.name;
  json["kind"] = kKindServer;
  json["startTimeUnixNano"] = std::to_string(span.start_ns);
  json["endTimeUnixNano"] = std::to_string(span.end_ns);
  json["attributes"] = OrderedJson::array();
  for (const auto& [key, value] : span.attributes) json["attributes"].push_back(json_attribute(key, value));
  json["status"] = OrderedJson::object();
  if (!span.error.empty()) {
    json["status"]["message"] = span.error;
    json["status"]["code"] = kStatusError;
  }
  return json;
}

// -------------------------------------------------------------------------------------------------- protobuf

/// Fields of a message in protobuf's wire format, in the order of the calls.
class ProtobufText {
 public:
  void bytes(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    text_ += value;
  }
  void message(int field, const ProtobufText& value) { bytes(field, value.text_); }
  void integer(int field, uint64_t value) {
    key(field, 0);
    varint(value);
  }
  void fixed64(int field, uint64_t value) {
    key(field, 1);
    little_endian(value, 8);
  }
  void fixed32(int field, uint32_t value) {
    key(field, 5);
    little_endian(value, 4);
  }
  [[nodiscard]] std::string& text() { return text_; }

 private:
  void key(int field, int type) { varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  void little_endian(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) text_ += static_cast<char>(value >> (8 * i));
  }

  std::string text_;
};

template <size_t kCount>
std::string_view view(const std::array<uint8_t, kCount>& bytes) {
  const void* data = bytes.data();
  return {static_cast<const char*>(data), bytes.size()};
}

ProtobufText protobuf_attribute(std::string_view key, const Span::Value& value) {
  ProtobufText any;  // AnyValue
  if (const auto* text = std::get_if<std::string>(&value)) {
    any.bytes(1, *text);
  } else if (const auto* number = std::get_if<int64_t>(&value)) {
    any.integer(3, static_cast<uint64_t>(*number));
  } else {
    uint64_t bits = 0;
    std::memcpy(&bits, &std::get<double>(value), sizeof bits);
    any.fixed64(4, bits);
  }
  ProtobufText pair;  // KeyValue
  pair.bytes(1, key);
  pair.message(2, any);
  return pair;
}

ProtobufText protobuf_span(const Span& span) {
  ProtobufText text;
  text.bytes(1, view(span.trace_id));
  text.bytes(2, view(span.span_id));
  if (!span.trace_state.empty()) text.bytes(3, span.trace_state);
  if (span.has_parent) text.bytes(4, view(span.parent_span_id));
  text.bytes(5, span.name);
  text.integer(6, kKindServer);
  text.fixed64(7, span.start_ns);
  text.fixed64(8, span.end_ns);
  for (const auto& [key, value] : span.attributes) text.message(9, protobuf_attribute(key, value));
  if (!span.error.empty()) {
    ProtobufText status;
    status.bytes(2, span.error);
    status.integer(3, kStatusError);
    text.message(15, status);
  }
  text.fixed32(16, kSampledFlag);
  return text;
}

}  // namespace

std::string otlp_json(std::span<const Span> spans, const SpanSource& source) {
  OrderedJson scope_spans;
  scope_spans["scope"] = {{"name", "glint"}, {"version", source.version}};
  scope_spans["spans"] = OrderedJson::array();
  for (const Span& span : spans) scope_spans["spans"].push_back(json_span(span));
  OrderedJson resource_spans;
  resource_spans["resource"]["attributes"] =
      OrderedJson::array({json_attribute("service.name", source.service_name)});
  resource_spans["scopeSpans"] = OrderedJson::array({scope_spans});
  OrderedJson request;
  request["resourceSpans"] = OrderedJson::array({resource_spans});
  return dump_json(request);
}

std::string otlp_protobuf(std::span<const Span> spans, const SpanSource& source) {
  ProtobufText scope;
  scope.bytes(1, "glint");
  scope.bytes(2, source.version);
  ProtobufText scope_spans;
  scope_spans.message(1, scope);
  for (const Span& span : spans) scope_spans.message(2, protobuf_span(span));
  ProtobufText resource;
  resource.message(1, protobuf_attribute("service.name", source.service_name));
  ProtobufText resource_spans;
  resource_spans.message(1, resource);
  resource_spans.message(2, scope_spans);
  ProtobufText request;
  request.message(1, resource_spans);
  return std::move(request.text());
}

}  // namespace glint
