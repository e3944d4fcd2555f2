#include "server/responses_request.h"

#include <array>

#include "server/api_error.h"
#include "server/fields.h"
#include "server/responses_items.h"
#include "text/python_json.h"
#include "text/request_fields.h"

namespace glint {

namespace {

constexpr std::array kPassed = {"model",
                                "temperature",
                                "top_p",
                                "top_k",
                                "stream",
                                "parallel_tool_calls",
                                "stop",
                                "seed",
                                "ignore_eos",
                                "chat_template_kwargs",
                                "min_p",
                                "min_tokens",
                                "stop_token_ids",
                                "presence_penalty",
                                "frequency_penalty",
                                "repetition_penalty",
                                "logit_bias",
                                "allowed_token_ids",
                                "bad_words",
                                "include_stop_str_in_output",
                                "skip_special_tokens",
                                "thinking_token_budget",
                                "include_reasoning",
                                "structured_outputs",
                                "priority",
                                "cache_salt",
                                "request_id"};

void refuse_others(const OrderedJson& body) {
  for (const char* name : {"prompt", "conversation"}) {
    if (given(body, name) != nullptr) refuse(name, name, " is not served here: send instructions and input");
  }
  if (const OrderedJson* include = given(body, "include")) {
    need_list(*include, "include");
    for (const OrderedJson& one : *include) {
      if (one == "reasoning.encrypted_content") continue;  // the reasoning itself is in the items
      refuse("include", "include: ", excerpt(one.dump()), " is not served here: leave it out");
    }
  }
  const OrderedJson* top = given(body, "top_logprobs");
  if (top != nullptr && *top != 0)
    refuse("top_logprobs", "top_logprobs is not served here: use /v1/chat/completions");
}

OrderedJson chat_tool(const OrderedJson& tool, const std::string& place, const std::string& space,
                      ResponsesRequest& out) {
  const OrderedJson* name = given(tool, "name");
  if (name == nullptr) refuse(place + ".name", place, ".name is missing");
  std::string flat = need_string(*name, place + ".name");
  if (!space.empty()) {
    const std::string bare = std::exchange(flat, flat_tool_name(space, flat));
    out.spaces[flat] = {space, bare};
  }
  OrderedJson function{{"name", std::move(flat)}};
  for (const char* key : {"description", "parameters", "strict", "defer_loading"}) {
    if (const OrderedJson* value = given(tool, key)) function[key] = *value;
  }
  return {{"type", "function"}, {"function", std::move(function)}};
}

const std::string& type_of(const OrderedJson& object, const std::string& place) {
  need_object(object, place);
  const OrderedJson* type = given(object, "type");
  if (type == nullptr) refuse(place + ".type", place, ".type is missing");
  return need_string(*type, place + ".type");
}

void read_tools(const OrderedJson& body, ResponsesRequest& out) {
  const OrderedJson* tools = given(body, "tools");
  if (tools == nullptr) return;
  need_list(*tools, "tools");
  const auto add = [&](const OrderedJson& tool, const std::string& place, const std::string& space) {
    if (const std::string& type = type_of(tool, place); type != "function") {
      refuse(place + ".type", place, ".type \"", excerpt(type),
             "\" is not served here, only function tools and namespaces of them; leave it out");
    }
    out.names.add(cat("tools.", out.chat.contains("tools") ? out.chat["tools"].size() : 0, ".function"),
                  place);
    out.chat["tools"].push_back(chat_tool(tool, place, space, out));
  };
  for (size_t i = 0; i < tools->size(); ++i) {
    const OrderedJson& tool = (*tools)[i];
    const std::string place = cat("tools.", i);
    if (type_of(tool, place) != "namespace") {
      add(tool, place, "");
      continue;
    }
    const OrderedJson* name = given(tool, "name");
    const OrderedJson* members = given(tool, "tools");
    if (name == nullptr) refuse(place + ".name", place, ".name is missing");
    if (members == nullptr) refuse(place + ".tools", place, ".tools is missing");
    need_list(*members, place + ".tools");
    for (size_t k = 0; k < members->size(); ++k) {
      add((*members)[k], cat(place, ".tools.", k), need_string(*name, place + ".name"));
    }
  }
}

void read_tool_choice(const OrderedJson& body, ResponsesRequest& out) {
  const OrderedJson* choice = given(body, "tool_choice");
  if (choice == nullptr) return;
  if (choice->is_string()) {
    // "auto" beside an empty list of tools is what clients send by habit.
    if (out.chat.contains("tools") || (*choice != "auto" && *choice != "none"))
      out.chat["tool_choice"] = *choice;
    return;
  }
  if (const std::string& type = type_of(*choice, "tool_choice"); type != "function") {
    refuse("tool_choice.type", "tool_choice.type \"", excerpt(type),
           "\" is not served here: expected auto, none, required or {\"type\": \"function\", \"name\": ...}");
  }
  const OrderedJson* name = given(*choice, "name");
  if (name == nullptr) refuse("tool_choice.name", "tool_choice.name is missing");
  std::string flat = need_string(*name, "tool_choice.name");
  if (const OrderedJson* space = given(*choice, "namespace"))
    flat = flat_tool_name(need_string(*space, "tool_choice.namespace"), flat);
  out.chat["tool_choice"] = {{"type", "function"}, {"function", {{"name", std::move(flat)}}}};
}

void read_text_format(const OrderedJson& body, OrderedJson& chat) {
  const OrderedJson* text = given(body, "text");
  if (text == nullptr) return;
  need_object(*text, "text");
  const OrderedJson* format = given(*text, "format");
  if (format == nullptr) return;
  const std::string& type = type_of(*format, "text.format");
  if (type != "json_schema") {
    chat["response_format"] = {{"type", type}};
    return;
  }
  OrderedJson schema;
  for (const char* key : {"name", "schema", "strict", "description"}) {
    if (const OrderedJson* value = given(*format, key)) schema[key] = *value;
  }
  if (!schema.contains("schema")) refuse("text.format.schema", "text.format.schema is missing");
  chat["response_format"] = {{"type", "json_schema"}, {"json_schema", std::move(schema)}};
}

bool flag(const OrderedJson& body, const char* name, bool otherwise) {
  const OrderedJson* value = given(body, name);
  return value == nullptr ? otherwise : need_bool(*value, name);
}

void read_flags(const OrderedJson& body, const ResponseStore& store, ResponsesRequest& out) {
  out.stream = flag(body, "stream", false);
  out.store = flag(body, "store", true) && store.keeps();
  out.background = flag(body, "background", false);
  if (out.background && !out.store) {
    refuse("background",
           "background: the answer would be lost; it needs store, and a server that keeps responses");
  }
  if (out.background && out.stream)
    refuse("background", "background and stream together are not served here");
  if (const OrderedJson* truncation = given(body, "truncation")) {
    if (*truncation != "auto" && *truncation != "disabled") {
      refuse("truncation", "truncation must be \"auto\" or \"disabled\"");
    }
    if (*truncation == "auto") out.chat["truncate_prompt_tokens"] = -1;
  }
}

void read_messages(const OrderedJson& body, const ResponseStore& store, ResponsesRequest& out) {
  OrderedJson turns = OrderedJson::array();
  if (const OrderedJson* previous = given(body, "previous_response_id")) {
    const std::string& id = need_string(*previous, "previous_response_id");
    const auto stored = store.find(id);
    if (!stored || stored->turns.empty()) {
      throw ApiRefusal(
          {404, "NotFoundError",
           cat("previous_response_id: the response '", shortened(id),
               "' is not stored here (never was, was dropped for newer ones, or has not finished)"),
           "previous_response_id"});
    }
    turns = parse_python_json(stored->turns, "the stored response");
  }
  const OrderedJson* input = given(body, "input");
  if (input == nullptr) refuse("input", "input is missing");
  const size_t in_front = given(body, "instructions") == nullptr ? 0 : 1;
  append_input(*input, in_front, turns, out.names);
  if (out.store) out.turns = python_dumps(turns);
  OrderedJson messages = OrderedJson::array();
  if (const OrderedJson* instructions = given(body, "instructions")) {
    messages.push_back({{"role", "system"}, {"content", need_string(*instructions, "instructions")}});
  }
  for (OrderedJson& message : turns) messages.push_back(std::move(message));
  out.chat["messages"] = std::move(messages);
}

void read_reasoning(const OrderedJson& body, OrderedJson& chat) {
  const OrderedJson* reasoning = given(body, "reasoning");
  if (reasoning == nullptr) return;
  need_object(*reasoning, "reasoning");
  if (const OrderedJson* effort = given(*reasoning, "effort")) {
    chat["reasoning_effort"] = need_string(*effort, "reasoning.effort");
  }
}

void add_names(FieldNames& names) {
  for (const char* length : {"max_completion_tokens", "max_tokens"}) names.add(length, "max_output_tokens");
  names.add("messages", "input");
  names.add("truncate_prompt_tokens", "truncation");
  names.add("reasoning_effort", "reasoning.effort");
  names.add("response_format", "text.format");
  names.add("response_format.json_schema", "text.format");
}

/// The members of a response that come from its request, in OpenAI's order.
OrderedJson echo_of(const OrderedJson& body, const ResponsesRequest& request) {
  const auto or_else = [&body](const char* name, OrderedJson otherwise) {
    const OrderedJson* value = given(body, name);
    return value == nullptr ? otherwise : *value;
  };
  const OrderedJson plain_text{{"format", {{"type", "text"}}}};
  OrderedJson echo;
  echo["background"] = request.background;
  for (const char* name : {"instructions", "max_output_tokens", "max_tool_calls"})
    echo[name] = or_else(name, nullptr);
  echo["parallel_tool_calls"] = or_else("parallel_tool_calls", true);
  echo["previous_response_id"] = or_else("previous_response_id", nullptr);
  echo["reasoning"] = or_else("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
  echo["service_tier"] = "default";
  echo["store"] = request.store;
  echo["temperature"] = or_else("temperature", nullptr);
  echo["text"] = or_else("text", plain_text);
  if (!echo["text"].contains("format")) echo["text"].update(plain_text);
  echo["tool_choice"] = or_else("tool_choice", "auto");
  echo["tools"] = or_else("tools", OrderedJson::array());
  echo["top_logprobs"] = 0;
  echo["top_p"] = or_else("top_p", nullptr);
  echo["truncation"] = or_else("truncation", "disabled");
  echo["user"] = or_else("user", nullptr);
  echo["metadata"] = or_else("metadata", OrderedJson::object());
  return echo;
}

}  // namespace

ResponsesRequest read_responses_request(const OrderedJson& body, const ResponseStore& store) {
  need_object(body, "body");
  refuse_others(body);
  ResponsesRequest out;
  add_names(out.names);
  for (const char* name : kPassed) {
    if (const OrderedJson* value = given(body, name)) out.chat[name] = *value;
  }
  if (const OrderedJson* tokens = given(body, "max_output_tokens"))
    out.chat["max_completion_tokens"] = *tokens;
  read_flags(body, store, out);
  read_reasoning(body, out.chat);
  read_tools(body, out);
  read_tool_choice(body, out);
  read_text_format(body, out.chat);
  read_messages(body, store, out);
  out.echo = echo_of(body, out);
  return out;
}

}  // namespace glint
