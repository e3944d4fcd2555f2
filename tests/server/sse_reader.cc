#include "sse_reader.h"

#include <gtest/gtest.h>

namespace glint {

std::vector<SseEvent> read_sse(std::string_view text) {
  std::vector<SseEvent> events;
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    if (end == std::string_view::npos) {
      ADD_FAILURE() << "an event without its end: " << text;
      break;
    }
    const std::string_view event = text.substr(0, end);
    text.remove_prefix(end + 2);
    const size_t line = event.find('\n');
    if (!event.starts_with("event: ") || line == std::string_view::npos ||
        !event.substr(line + 1).starts_with("data: ") ||
        event.find('\n', line + 1) != std::string_view::npos) {
      ADD_FAILURE() << "no event: " << event;
      continue;
    }
    events.push_back({std::string(event.substr(7, line - 7)), OrderedJson::parse(event.substr(line + 7))});
  }
  return events;
}

namespace {

/// Adds a delta to the open block.
void add_delta(OrderedJson& block, const OrderedJson& delta, std::string& json) {
  const std::string type = delta.at("type");
  const std::string takes = block.at("type");
  if (type == "input_json_delta") {
    EXPECT_EQ(takes, "tool_use");
    json += delta.at("partial_json").get<std::string>();
    return;
  }
  const std::string key = type.substr(0, type.find('_'));  // "text", "thinking", "signature"
  EXPECT_EQ(takes, key == "signature" ? "thinking" : key);
  block[key] = block.at(key).get<std::string>() + delta.at(key).get<std::string>();
}

}  // namespace

OrderedJson add_up_message(const std::vector<SseEvent>& events) {
  OrderedJson message;
  std::string json;
  bool open = false;
  bool stopped = false;
  for (const auto& [name, data] : events) {
    EXPECT_FALSE(stopped) << "nothing behind message_stop";
    EXPECT_EQ(data.at("type"), name);
    if (name == "message_start") {
      EXPECT_TRUE(message.is_null());
      message = data.at("message");
      EXPECT_TRUE(message.at("content").empty());
    } else if (name == "content_block_start") {
      EXPECT_FALSE(open) << "one open block at a time";
      EXPECT_EQ(data.at("index"), message["content"].size());
      message["content"].push_back(data.at("content_block"));
      open = true;
    } else if (name == "content_block_delta") {
      EXPECT_TRUE(open);
      EXPECT_EQ(data.at("index").get<size_t>() + 1, message["content"].size());
      add_delta(message["content"].back(), data.at("delta"), json);
    } else if (name == "content_block_stop") {
      EXPECT_TRUE(open);
      EXPECT_EQ(data.at("index").get<size_t>() + 1, message["content"].size());
      if (message["content"].back().at("type") == "tool_use") {
        message["content"].back()["input"] = OrderedJson::parse(json);
      }
      json.clear();
      open = false;
    } else if (name == "message_delta") {
      EXPECT_FALSE(open);
      message.update(data.at("delta"));
      message["usage"] = data.at("usage");
    } else if (name == "message_stop") {
      stopped = true;
    } else {
      ADD_FAILURE() << name;
    }
  }
  EXPECT_TRUE(stopped);
  return message;
}

}  // namespace glint
