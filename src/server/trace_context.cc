#include "server/trace_context.h"

#include <algorithm>

namespace glint {

namespace {

constexpr size_t kBytes = 55;  // of version 00: 2 + 1 + 32 + 1 + 16 + 1 + 2
constexpr size_t kStateBytesMax = 512;

/// Lower case only, as the standard has it; -1 for anything else.
int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

template <size_t kCount>
bool read_hex(std::string_view text, std::array<uint8_t, kCount>& bytes) {
  for (size_t i = 0; i < kCount; ++i) {
    const int high = hex_digit(text[2 * i]);
    const int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

template <size_t kCount>
bool all_zero(const std::array<uint8_t, kCount>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

}  // namespace

std::optional<TraceContext> parse_trace_context(std::string_view traceparent, std::string_view tracestate) {
  if (traceparent.size() < kBytes) return std::nullopt;
  std::array<uint8_t, 1> version{};
  std::array<uint8_t, 1> flags{};
  TraceContext context;
  const bool read = read_hex(traceparent.substr(0, 2), version) && traceparent[2] == '-' &&
                    read_hex(traceparent.substr(3, 32), context.trace_id) && traceparent[35] == '-' &&
                    read_hex(traceparent.substr(36, 16), context.parent_span_id) && traceparent[52] == '-' &&
                    read_hex(traceparent.substr(53, 2), flags);
  if (!read || version[0] == 0xff) return std::nullopt;
  if (traceparent.size() > kBytes && (version[0] == 0 || traceparent[kBytes] != '-')) return std::nullopt;
  if (all_zero(context.trace_id) || all_zero(context.parent_span_id)) return std::nullopt;
  context.sampled = (flags[0] & 1) != 0;
  const bool printable =
      std::all_of(tracestate.begin(), tracestate.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (printable && tracestate.size() <= kStateBytesMax) context.state = tracestate;
  return context;
}

}  // namespace glint
