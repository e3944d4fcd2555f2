#include "server/responses_items.h"

#include <utility>

#include "text/request_fields.h"

namespace glint {

namespace {

const std::string& member_text(const OrderedJson& item, const char* name, const std::string& param) {
  const std::string place = cat(param, ".", name);
  const OrderedJson* text = given(item, name);
  if (text == nullptr) refuse(place, place, " is missing");
  return need_string(*text, place);
}

/// A string, or the text of parts, joined without separator.
std::string text_of(const OrderedJson& content, const std::string& param) {
  if (content.is_string()) return content.get<std::string>();
  need_text_or_list(content, param);
  std::string out;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string at = cat(param, ".", i);
    need_object(content[i], at);
    const std::string& type = member_text(content[i], "type", at);
    if (type == "refusal") {
      out += member_text(content[i], "refusal", at);
    } else if (type == "input_text" || type == "output_text" || type == "text") {
      out += member_text(content[i], "text", at);
    } else {
      refuse(at, at, ": the model reads text only, a part of type \"", excerpt(type), "\" cannot be served");
    }
  }
  return out;
}

/// The turn of the assistant that the next item may join: the last message, if it is one.
OrderedJson* open_turn(OrderedJson& messages) {
  return !messages.empty() && messages.back()["role"] == "assistant" ? &messages.back() : nullptr;
}

OrderedJson& new_turn(OrderedJson& messages) {
  messages.push_back({{"role", "assistant"}, {"content", ""}});
  return messages.back();
}

void add_reasoning(const OrderedJson& item, const std::string& param, OrderedJson& messages) {
  std::string text;
  if (const OrderedJson* content = given(item, "content")) {
    need_list(*content, param + ".content");
    for (size_t i = 0; i < content->size(); ++i) {
      const std::string at = cat(param, ".content.", i);
      need_object((*content)[i], at);
      text += member_text((*content)[i], "text", at);
    }
  }
  OrderedJson* turn = open_turn(messages);
  if (turn == nullptr || (*turn)["content"] != "" || turn->contains("tool_calls")) turn = &new_turn(messages);
  if (!text.empty()) (*turn)["reasoning"] = turn->value("reasoning", "") + text;
}

void add_message(const OrderedJson& item, const std::string& param, OrderedJson& messages) {
  const std::string& role = member_text(item, "role", param);
  const std::string place = param + ".content";
  const OrderedJson* content = given(item, "content");
  if (content == nullptr) refuse(place, place, " is missing");
  std::string text = text_of(*content, place);
  if (role == "user" || role == "system" || role == "developer") {
    messages.push_back({{"role", role}, {"content", std::move(text)}});
    return;
  }
  if (role != "assistant") {
    refuse(param + ".role", param, ".role \"", excerpt(role),
           "\" is not known: expected user, system, developer or assistant");
  }
  OrderedJson* turn = open_turn(messages);
  if (turn == nullptr || (*turn)["content"] != "") turn = &new_turn(messages);
  (*turn)["content"] = std::move(text);
}

void add_call(const OrderedJson& item, const std::string& param, OrderedJson& messages) {
  std::string name = member_text(item, "name", param);
  if (const OrderedJson* space = given(item, "namespace")) {
    name = flat_tool_name(need_string(*space, param + ".namespace"), name);
  }
  OrderedJson function{{"name", std::move(name)}};
  function["arguments"] = member_text(item, "arguments", param);
  OrderedJson* turn = open_turn(messages);
  if (turn == nullptr) turn = &new_turn(messages);
  (*turn)["tool_calls"].push_back(
      {{"id", member_text(item, "call_id", param)}, {"type", "function"}, {"function", std::move(function)}});
}

void add_result(const OrderedJson& item, const std::string& param, OrderedJson& messages) {
  const std::string place = param + ".output";
  const OrderedJson* output = given(item, "output");
  if (output == nullptr) refuse(place, place, " is missing");
  messages.push_back({{"role", "tool"},
                      {"tool_call_id", member_text(item, "call_id", param)},
                      {"content", text_of(*output, place)}});
}

void add_item(const OrderedJson& item, const std::string& param, OrderedJson& messages) {
  need_object(item, param);
  const OrderedJson* type = given(item, "type");
  const std::string& name = type == nullptr ? std::string("message") : need_string(*type, param + ".type");
  if (name == "message") return add_message(item, param, messages);
  if (name == "reasoning") return add_reasoning(item, param, messages);
  if (name == "function_call") return add_call(item, param, messages);
  if (name == "function_call_output") return add_result(item, param, messages);
  refuse(param + ".type", param, ".type \"", excerpt(name),
         "\" cannot be served here: expected message, reasoning, function_call or function_call_output");
}

}  // namespace

std::string flat_tool_name(const std::string& space, const std::string& name) {
  return space + "__" + name;
}

void append_input(const OrderedJson& input, size_t in_front, OrderedJson& messages, FieldNames& names) {
  if (input.is_string()) {
    messages.push_back({{"role", "user"}, {"content", input}});
    return;
  }
  if (!input.is_array()) refuse("input", "input must be a string or a list of items, not ", json_kind(input));
  if (input.empty()) refuse("input", "input must hold at least one item");
  for (size_t i = 0; i < input.size(); ++i) {
    const std::string place = cat("input.", i);
    add_item(input[i], place, messages);
    const OrderedJson* type = given(input[i], "type");
    if (type == nullptr || *type != "function_call") continue;
    names.add(cat("messages.", in_front + messages.size() - 1, ".tool_calls.",
                  messages.back()["tool_calls"].size() - 1, ".function"),
              place);
  }
}

OrderedJson assistant_turn(const std::string& reasoning, const std::string& content,
                           const OrderedJson& tool_calls) {
  OrderedJson turn{{"role", "assistant"}, {"content", content}};
  if (!reasoning.empty()) turn["reasoning"] = reasoning;
  if (!tool_calls.empty()) turn["tool_calls"] = tool_calls;
  return turn;
}

}  // namespace glint
