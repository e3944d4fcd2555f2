#include "server/messages_request.h"

#include <array>
#include <string>
#include <string_view>

#include "server/messages_turns.h"
#include "text/request_fields.h"

namespace glint {

namespace {

constexpr std::string_view kBillingHeader = "x-anthropic-billing-header";

/// Fields with the same name and meaning on both sides.
constexpr std::array kPassed = {"model",
                                "temperature",
                                "top_p",
                                "top_k",
                                "stream",
                                "chat_template_kwargs",
                                "min_p",
                                "seed",
                                "min_tokens",
                                "ignore_eos",
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
                                "truncate_prompt_tokens",
                                "truncation_side",
                                "priority",
                                "cache_salt",
                                "request_id"};

void read_system(const OrderedJson& body, std::string& out) {
  const OrderedJson* system = given(body, "system");
  if (system == nullptr) return;
  if (system->is_string()) {
    out = system->get<std::string>();
    return;
  }
  need_text_or_list(*system, "system");
  for (size_t i = 0; i < system->size(); ++i) {
    const std::string& text = messages_text_block((*system)[i], cat("system.", i));
    if (!text.starts_with(kBillingHeader)) out += text;
  }
}

void read_tools(const OrderedJson& body, OrderedJson& chat) {
  const OrderedJson* tools = given(body, "tools");
  if (tools == nullptr) return;
  need_list(*tools, "tools");
  for (size_t i = 0; i < tools->size(); ++i) {
    const OrderedJson& tool = (*tools)[i];
    const std::string place = cat("tools.", i);
    need_object(tool, place);
    const OrderedJson* type = given(tool, "type");
    if (type != nullptr && *type != "custom") {
      refuse(
          place + ".type", place, ".type ", excerpt(type->dump()),
          ": tools of Anthropic's own are not served, only custom tools with an input_schema; leave it out");
    }
    const OrderedJson* name = given(tool, "name");
    if (name == nullptr) refuse(place + ".name", place, ".name is missing");
    const OrderedJson* schema = given(tool, "input_schema");
    if (schema == nullptr) refuse(place + ".input_schema", place, ".input_schema is missing");
    need_object(*schema, place + ".input_schema");
    OrderedJson function;
    function["name"] = need_string(*name, place + ".name");
    if (const OrderedJson* description = given(tool, "description")) {
      function["description"] = need_string(*description, place + ".description");
    }
    function["parameters"] = *schema;
    for (const char* flag : {"strict", "defer_loading"}) {
      if (const OrderedJson* value = given(tool, flag))
        function[flag] = need_bool(*value, cat(place, ".", flag));
    }
    chat["tools"].push_back({{"type", "function"}, {"function", std::move(function)}});
  }
}

void read_tool_choice(const OrderedJson& body, OrderedJson& chat) {
  const OrderedJson* choice = given(body, "tool_choice");
  if (choice == nullptr) return;
  need_object(*choice, "tool_choice");
  const OrderedJson* type = given(*choice, "type");
  if (type == nullptr) refuse("tool_choice.type", "tool_choice.type is missing");
  const std::string& name = need_string(*type, "tool_choice.type");
  if (name == "auto" || name == "none") {
    if (chat.contains("tools")) chat["tool_choice"] = name;
  } else if (name == "any") {
    chat["tool_choice"] = "required";
  } else if (name == "tool") {
    const OrderedJson* tool = given(*choice, "name");
    if (tool == nullptr) refuse("tool_choice.name", "tool_choice.name is missing");
    OrderedJson function{{"name", need_string(*tool, "tool_choice.name")}};
    chat["tool_choice"] = {{"type", "function"}, {"function", std::move(function)}};
  } else {
    refuse("tool_choice.type", "tool_choice.type \"", excerpt(name),
           "\" is not known: expected auto, any, none or tool");
  }
  if (const OrderedJson* single = given(*choice, "disable_parallel_tool_use")) {
    chat["parallel_tool_calls"] = !need_bool(*single, "tool_choice.disable_parallel_tool_use");
  }
}

void disable_thinking(OrderedJson& chat) {
  if (!chat.contains("reasoning_effort")) chat["reasoning_effort"] = "low";
  OrderedJson& kwargs = chat["chat_template_kwargs"];
  if (!kwargs.is_null() && !kwargs.is_object()) return;  // the chat request's own check tells
  if (!kwargs.contains("enable_thinking")) kwargs["enable_thinking"] = false;
  chat["include_reasoning"] = false;
}

void read_thinking(const OrderedJson& body, OrderedJson& chat) {
  const OrderedJson* thinking = given(body, "thinking");
  if (thinking == nullptr) return;
  need_object(*thinking, "thinking");
  const OrderedJson* type = given(*thinking, "type");
  if (type == nullptr) refuse("thinking.type", "thinking.type is missing");
  const std::string& name = need_string(*type, "thinking.type");
  if (name == "disabled") return disable_thinking(chat);
  if (name != "enabled" && name != "adaptive" && name != "between_tools") {
    refuse("thinking.type", "thinking.type \"", excerpt(name),
           "\" is not known: expected enabled, adaptive or disabled");
  }
  if (const OrderedJson* budget = given(*thinking, "budget_tokens")) {
    if (!budget->is_number_integer() || *budget < 0) {
      refuse("thinking.budget_tokens", "thinking.budget_tokens must be an integer of at least 0");
    }
    if (!chat.contains("thinking_token_budget")) chat["thinking_token_budget"] = *budget;
  }
  const OrderedJson* display = given(*thinking, "display");
  if (display != nullptr && *display == "omitted") chat["include_reasoning"] = false;
}

void read_format(const OrderedJson& format, const std::string& place, OrderedJson& chat) {
  need_object(format, place);
  const OrderedJson* type = given(format, "type");
  if (type == nullptr || *type != "json_schema")
    refuse(place + ".type", place, ".type must be \"json_schema\"");
  const OrderedJson* schema = given(format, "schema");
  if (schema == nullptr) refuse(place + ".schema", place, ".schema is missing");
  need_object(*schema, place + ".schema");
  OrderedJson named{{"name", "output"}, {"schema", *schema}};
  chat["response_format"] = {{"type", "json_schema"}, {"json_schema", std::move(named)}};
}

void read_output_config(const OrderedJson& body, OrderedJson& chat) {
  if (const OrderedJson* format = given(body, "output_format")) read_format(*format, "output_format", chat);
  const OrderedJson* config = given(body, "output_config");
  if (config == nullptr) return;
  need_object(*config, "output_config");
  if (const OrderedJson* effort = given(*config, "effort")) {
    chat["reasoning_effort"] = need_string(*effort, "output_config.effort");
  }
  if (const OrderedJson* format = given(*config, "format"))
    read_format(*format, "output_config.format", chat);
}

void add_names(const OrderedJson& body, MessagesRequest& out) {
  const OrderedJson* config = given(body, "output_config");
  const bool newer = config != nullptr && given(*config, "format") != nullptr;
  const std::string format = newer ? "output_config.format" : "output_format";
  out.names.add("response_format", format);
  out.names.add("response_format.json_schema.schema", format + ".schema");
  out.names.add("reasoning_effort", "output_config.effort");
  out.names.add("stop", "stop_sequences");
  const size_t tools = out.chat.contains("tools") ? out.chat["tools"].size() : 0;
  for (size_t i = 0; i < tools; ++i) {
    out.names.add(cat("tools.", i, ".function"), cat("tools.", i));
    out.names.add(cat("tools.", i, ".function.parameters"), cat("tools.", i, ".input_schema"));
  }
}

void refuse_servers(const OrderedJson& body) {
  const OrderedJson* servers = given(body, "mcp_servers");
  if (servers == nullptr || servers->empty()) return;
  refuse("mcp_servers", "mcp_servers: this server calls no other servers; connect them on the client's side");
}

}  // namespace

MessagesRequest read_messages_request(const OrderedJson& body, MessagesPurpose purpose) {
  need_object(body, "body");
  MessagesRequest out;
  OrderedJson& chat = out.chat;
  for (const char* name : kPassed) {
    if (const OrderedJson* value = given(body, name)) chat[name] = *value;
  }
  if (const OrderedJson* tokens = given(body, "max_tokens")) {
    chat["max_tokens"] = *tokens;
  } else if (purpose == MessagesPurpose::generate) {
    refuse("max_tokens", "max_tokens: Field required");
  }
  if (const OrderedJson* stop = given(body, "stop_sequences")) {
    need_list(*stop, "stop_sequences");
    chat["stop"] = *stop;
  }
  refuse_servers(body);
  std::string system;
  read_system(body, system);
  read_messages_turns(body, system, chat);
  read_tools(body, chat);
  read_tool_choice(body, chat);
  read_output_config(body, chat);
  read_thinking(body, chat);
  add_names(body, out);
  return out;
}

}  // namespace glint
