#include "server/messages_turns.h"

#include <optional>
#include <utility>

#include "text/request_fields.h"

namespace glint {

namespace {

const std::string& block_type(const OrderedJson& block, const std::string& param) {
  need_object(block, param);
  const OrderedJson* type = given(block, "type");
  if (type == nullptr) refuse(param + ".type", param, ".type is missing");
  return need_string(*type, param + ".type");
}

const std::string& member_text(const OrderedJson& block, const char* name, const std::string& param) {
  const std::string place = cat(param, ".", name);
  const OrderedJson* text = given(block, name);
  if (text == nullptr) refuse(place, place, " is missing");
  return need_string(*text, place);
}

[[noreturn]] void refuse_block(const std::string& type, const std::string& param, const char* expected) {
  if (type == "image") refuse(param, param, ": the model reads text only, images cannot be served");
  refuse(param + ".type", param, ".type \"", excerpt(type), "\" cannot be served here: expected ", expected);
}

/// A document of plain text, or of text blocks.
std::string document_text(const OrderedJson& block, const std::string& param) {
  const std::string place = param + ".source";
  const OrderedJson* source = given(block, "source");
  if (source == nullptr) refuse(place, place, " is missing");
  const std::string& type = block_type(*source, place);
  if (type == "text") return member_text(*source, "data", place);
  const OrderedJson* content = given(*source, "content");
  if (type != "content" || content == nullptr) {
    refuse(place + ".type", place, ".type \"", excerpt(type),
           "\": only documents of plain text can be served");
  }
  if (content->is_string()) return content->get<std::string>();
  need_text_or_list(*content, place + ".content");
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    text += messages_text_block((*content)[i], cat(place, ".content.", i));
  }
  return text;
}

/// The content of a tool_result: text parts joined by newlines, or a list of references.
OrderedJson result_content(const OrderedJson& block, const std::string& param) {
  const OrderedJson* content = given(block, "content");
  if (content == nullptr) return "";
  if (content->is_string()) return *content;
  const std::string place = param + ".content";
  need_text_or_list(*content, place);
  OrderedJson references;
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const std::string at = cat(place, ".", i);
    const OrderedJson& part = (*content)[i];
    const std::string& type = block_type(part, at);
    if (type == "tool_reference") {
      references.push_back({{"type", "tool_reference"}, {"name", member_text(part, "tool_name", at)}});
      continue;
    }
    if (!text.empty()) text += '\n';
    if (type == "document") {
      text += document_text(part, at);
    } else {
      text += messages_text_block(part, at);
    }
  }
  if (references.is_null()) return text;
  if (!text.empty()) refuse(place, place, ": tool_reference blocks cannot stand beside text");
  return references;
}

void add_user(const OrderedJson& content, const std::string& param, OrderedJson& messages) {
  std::string text;
  bool has_text = false;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string at = cat(param, ".", i);
    const OrderedJson& block = content[i];
    const std::string& type = block_type(block, at);
    if (type == "tool_result") {
      OrderedJson message{{"role", "tool"}, {"tool_call_id", member_text(block, "tool_use_id", at)}};
      message["content"] = result_content(block, at);
      messages.push_back(std::move(message));
      continue;
    }
    has_text = true;
    if (type == "text") {
      text += member_text(block, "text", at);
    } else if (type == "document") {
      text += document_text(block, at);
    } else {
      refuse_block(type, at, "text, tool_result or a document of plain text");
    }
  }
  if (has_text || content.empty()) messages.push_back({{"role", "user"}, {"content", text}});
}

OrderedJson call_of(const OrderedJson& block, const std::string& param) {
  OrderedJson function{{"name", member_text(block, "name", param)}};
  const OrderedJson* input = given(block, "input");
  if (input != nullptr) need_object(*input, param + ".input");
  function["arguments"] = input == nullptr ? OrderedJson::object() : *input;
  return {{"id", member_text(block, "id", param)}, {"type", "function"}, {"function", std::move(function)}};
}

void add_assistant(const OrderedJson& content, const std::string& param, OrderedJson& messages) {
  std::string text;
  std::optional<std::string> reasoning;
  OrderedJson calls;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string at = cat(param, ".", i);
    const OrderedJson& block = content[i];
    const std::string& type = block_type(block, at);
    if (type == "text") {
      text += member_text(block, "text", at);
    } else if (type == "thinking") {
      reasoning = reasoning.value_or("") + member_text(block, "thinking", at);
    } else if (type == "tool_use") {
      calls.push_back(call_of(block, at));
    } else if (type != "redacted_thinking") {
      refuse_block(type, at, "text, thinking, redacted_thinking or tool_use");
    }
  }
  OrderedJson message{{"role", "assistant"}, {"content", text}};
  if (reasoning) message["reasoning"] = *reasoning;
  if (!calls.is_null()) message["tool_calls"] = std::move(calls);
  messages.push_back(std::move(message));
}

void add_system(const OrderedJson& content, const std::string& param, std::string& system) {
  std::string text;
  if (content.is_string()) {
    text = content.get<std::string>();
  } else {
    for (size_t i = 0; i < content.size(); ++i) text += messages_text_block(content[i], cat(param, ".", i));
  }
  if (!system.empty() && !text.empty()) system += '\n';
  system += text;
}

void add_turn(const OrderedJson& turn, const std::string& place, std::string& system, OrderedJson& messages) {
  need_object(turn, place);
  const std::string& role = member_text(turn, "role", place);
  const OrderedJson* content = given(turn, "content");
  const std::string at = place + ".content";
  if (content == nullptr) refuse(at, at, " is missing");
  need_text_or_list(*content, at);
  if (role == "system") {
    add_system(*content, at, system);
  } else if (role != "user" && role != "assistant") {
    refuse(place + ".role", place, ".role \"", excerpt(role), "\" is not known: expected user or assistant");
  } else if (content->is_string()) {
    messages.push_back({{"role", role}, {"content", *content}});
  } else if (role == "user") {
    add_user(*content, at, messages);
  } else {
    add_assistant(*content, at, messages);
  }
}

}  // namespace

const std::string& messages_text_block(const OrderedJson& block, const std::string& param) {
  const std::string& type = block_type(block, param);
  if (type != "text") refuse_block(type, param, "text");
  return member_text(block, "text", param);
}

void read_messages_turns(const OrderedJson& body, std::string system, OrderedJson& chat) {
  const OrderedJson* turns = given(body, "messages");
  if (turns == nullptr) refuse("messages", "messages: Field required");
  need_list(*turns, "messages");
  if (turns->empty()) refuse("messages", "messages: at least one message is required");
  OrderedJson messages = OrderedJson::array();
  for (size_t i = 0; i < turns->size(); ++i) add_turn((*turns)[i], cat("messages.", i), system, messages);
  if (messages.empty()) refuse("messages", "messages: at least one message of a user is required");
  if (messages.back()["role"] == "assistant") {
    if (messages.back().contains("tool_calls")) {
      refuse("messages",
             "messages: the last turn ends in tool_use blocks; their tool_result blocks are missing");
    }
    chat["continue_final_message"] = true;
    chat["add_generation_prompt"] = false;
  }
  if (!system.empty())
    messages.insert(messages.begin(), OrderedJson{{"role", "system"}, {"content", system}});
  chat["messages"] = std::move(messages);
}

}  // namespace glint
