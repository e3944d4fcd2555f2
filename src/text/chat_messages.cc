// Messages of a chat request: types checked, forms made uniform.
#include <algorithm>
#include <array>
#include <utility>

#include "text/chat_request.h"
#include "text/python_json.h"
#include "text/request_fields.h"

namespace glint {

namespace {

bool is_media(std::string_view type) {
  static constexpr std::array<std::string_view, 12> kMedia = {
      "image", "image_url", "input_image", "video",        "video_url", "input_video",
      "audio", "audio_url", "input_audio", "image_embeds", "file",      "input_file"};
  return std::find(kMedia.begin(), kMedia.end(), type) != kMedia.end();
}

/// The text of one part of a content list.
const std::string& part_text(const OrderedJson& part, const std::string& param) {
  if (part.is_string()) return part.get_ref<const std::string&>();
  need_object(part, param);
  const OrderedJson* type = given(part, "type");
  if (type == nullptr) refuse(param + ".type", param, ".type is missing: expected \"text\"");
  const std::string& name = need_string(*type, param + ".type");
  const char* field = name == "refusal" ? "refusal" : "text";
  if (is_media(name)) {
    refuse(param, param, ": the model reads text only, a part of type \"", name, "\" cannot be served");
  }
  if (name != "text" && name != "input_text" && name != "output_text" && name != "refusal") {
    refuse(param + ".type", param, ".type \"", excerpt(name), "\" is not known: expected \"text\"");
  }
  const OrderedJson* text = given(part, field);
  if (text == nullptr) refuse(param + "." + field, param, ".", field, " is missing");
  return need_string(*text, param + "." + field);
}

/// Content as text: a string, null or absent (empty), or text parts joined without separator.
std::string content_text(const OrderedJson* content, const std::string& param) {
  if (content == nullptr) return {};
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    refuse(param, param, " must be a string, null or a list of text parts, not ", json_kind(*content));
  }
  std::string out;
  for (size_t i = 0; i < content->size(); ++i) out += part_text((*content)[i], cat(param, ".", i));
  return out;
}

ChatRole role_of(const OrderedJson& message, const std::string& param) {
  const OrderedJson* role = given(message, "role");
  if (role == nullptr) refuse(param, param, " is missing");
  const std::string& name = need_string(*role, param);
  if (name == "system" || name == "developer") return ChatRole::system;
  if (name == "user") return ChatRole::user;
  if (name == "assistant") return ChatRole::assistant;
  if (name == "tool") return ChatRole::tool;
  refuse(param, param, " \"", excerpt(name),
         "\" is not known: expected system, developer, user, assistant or tool");
}

/// Which call a result answers, or what a call is known by; empty values count as absent.
std::string id_of(const OrderedJson& object, const std::string& param) {
  for (const char* field : {"tool_call_id", "id"}) {
    if (const OrderedJson* id = given(object, field)) {
      const std::string& text = need_string(*id, param + "." + field);
      if (!text.empty()) return text;
    }
  }
  return {};
}

OrderedJson decoded_arguments(const OrderedJson* arguments, const std::string& param) {
  if (arguments == nullptr) return OrderedJson::object();
  OrderedJson out;
  if (arguments->is_string()) {
    const std::string& text = arguments->get_ref<const std::string&>();
    if (text.empty()) return OrderedJson::object();
    try {
      out = parse_python_json(text, param);
    } catch (const Error& error) {
      refuse(param, error.what());
    }
  } else {
    out = *arguments;
  }
  if (!out.is_object()) {
    refuse(param, param, " must be the JSON text of an object, found ", json_kind(out));
  }
  return out;
}

ChatToolCall tool_call(const OrderedJson& call, const std::string& param) {
  need_object(call, param);
  if (const OrderedJson* type = given(call, "type"); type != nullptr && *type != "function") {
    refuse(param + ".type", param, ".type must be \"function\"");
  }
  const OrderedJson* function = given(call, "function");
  if (function == nullptr) refuse(param + ".function", param, ".function is missing");
  need_object(*function, param + ".function");
  const OrderedJson* name = given(*function, "name");
  if (name == nullptr) refuse(param + ".function.name", param, ".function.name is missing");
  return {.id = id_of(call, param),
          .name = need_string(*name, param + ".function.name"),
          .arguments = decoded_arguments(given(*function, "arguments"), param + ".function.arguments")};
}

void read_assistant(const OrderedJson& message, const std::string& param, ChatMessage& out) {
  out.text = content_text(given(message, "content"), param + ".content");
  for (const char* field : {"reasoning", "reasoning_content"}) {
    const OrderedJson* reasoning = given(message, field);
    if (reasoning == nullptr || out.reasoning) continue;
    out.reasoning = need_string(*reasoning, param + "." + field);
  }
  if (given(message, "function_call") != nullptr) {
    refuse(param + ".function_call", param, ".function_call is the retired form: send tool_calls");
  }
  if (const OrderedJson* calls = given(message, "tool_calls")) {
    need_list(*calls, param + ".tool_calls");
    for (size_t i = 0; i < calls->size(); ++i) {
      out.tool_calls.push_back(tool_call((*calls)[i], cat(param, ".tool_calls.", i)));
    }
  }
}

bool is_reference_list(const OrderedJson& value) {
  if (!value.is_array() || value.empty() || !value.front().is_object()) return false;
  const OrderedJson* type = given(value.front(), "type");
  return type != nullptr && *type == "tool_reference";
}

void read_references(const OrderedJson& list, const std::string& param, ChatToolResult& out) {
  out.is_references = true;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = cat(param, ".", i);
    need_object(list[i], place);
    const OrderedJson* type = given(list[i], "type");
    if (type == nullptr || *type != "tool_reference") {
      refuse(place + ".type", place, ".type must be \"tool_reference\", as in the first entry of the list");
    }
    const OrderedJson* name = given(list[i], "name");
    if (name == nullptr) refuse(place + ".name", place, ".name is missing");
    out.references.push_back(need_string(*name, place + ".name"));
  }
}

/// What a tool returned: text in any of its forms, or references to tools.
void read_output(const OrderedJson* output, const std::string& param, ChatToolResult& out) {
  if (output != nullptr && is_reference_list(*output)) {
    read_references(*output, param, out);
  } else {
    out.text = content_text(output, param);
  }
}

void read_tool(const OrderedJson& message, const std::string& param, ChatMessage& out) {
  const OrderedJson* content = given(message, "content");
  const std::string place = param + ".content";
  const bool has_outputs = content != nullptr && content->is_array() && !content->empty() &&
                           content->front().is_object() && content->front().contains("output");
  if (!has_outputs) {
    ChatToolResult result;
    result.id = id_of(message, param);
    read_output(content, place, result);
    out.results.push_back(std::move(result));
    return;
  }
  for (size_t i = 0; i < content->size(); ++i) {
    const OrderedJson& entry = (*content)[i];
    const std::string at = cat(place, ".", i);
    need_object(entry, at);
    if (!entry.contains("output")) {
      refuse(at + ".output", at, ".output is missing, the first entry of the list has one");
    }
    ChatToolResult result;
    result.id = id_of(entry, at);
    read_output(given(entry, "output"), at + ".output", result);
    out.results.push_back(std::move(result));
  }
}

}  // namespace

std::vector<ChatMessage> parse_chat_messages(const OrderedJson& messages, const std::string& param) {
  need_list(messages, param);
  if (messages.empty()) refuse(param, param, " must hold at least one message");
  std::vector<ChatMessage> out;
  out.reserve(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    const OrderedJson& message = messages[i];
    const std::string place = cat(param, ".", i);
    need_object(message, place);
    ChatMessage& parsed = out.emplace_back();
    parsed.role = role_of(message, place + ".role");
    switch (parsed.role) {
      case ChatRole::assistant:
        read_assistant(message, place, parsed);
        break;
      case ChatRole::tool:
        read_tool(message, place, parsed);
        break;
      case ChatRole::system:
      case ChatRole::user:
        parsed.text = content_text(given(message, "content"), place + ".content");
        break;
    }
  }
  return out;
}

}  // namespace glint
