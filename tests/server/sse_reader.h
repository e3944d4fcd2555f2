// Streams of named events, and what a client adds them up to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace glint {

struct SseEvent {
  std::string name;
  OrderedJson data;
};

/// Every event has exactly one "event: " and one "data: " line; anything else fails the test.
std::vector<SseEvent> read_sse(std::string_view text);

/// The message that the events of /v1/messages make; broken orders fail the test.
OrderedJson add_up_message(const std::vector<SseEvent>& events);

}  // namespace glint
