#include "text/chat_request.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/python_json.h"
#include "text/request_fields.h"

namespace glint {

namespace {

ToolDefinition tool(const OrderedJson& entry, const std::string& param) {
  need_object(entry, param);
  if (const OrderedJson* type = given(entry, "type"); type != nullptr && *type != "function") {
    refuse(param + ".type", param, ".type must be \"function\"");
  }
  const OrderedJson* function = given(entry, "function");
  const std::string place = param + ".function";
  if (function == nullptr) refuse(place, place, " is missing");
  need_object(*function, place);

  ToolDefinition out;
  const OrderedJson* name = given(*function, "name");
  if (name == nullptr) refuse(place + ".name", place, ".name is missing");
  out.name = need_string(*name, place + ".name");
  if (out.name.empty()) refuse(place + ".name", place, ".name must not be empty");
  if (const OrderedJson* description = given(*function, "description")) {
    out.description = need_string(*description, place + ".description");
  }
  if (const OrderedJson* parameters = given(*function, "parameters")) {
    need_object(*parameters, place + ".parameters");
    out.parameters = *parameters;
  }
  if (const OrderedJson* deferred = given(*function, "defer_loading")) {
    out.defer_loading = need_bool(*deferred, place + ".defer_loading");
  }
  return out;
}

/// Fields of the request that must not come in through the template's variables.
void refuse_own_fields(const OrderedJson& kwargs) {
  static constexpr std::array kOwn = {
      "messages",      "tools",   "add_generation_prompt", "continue_final_message", "documents",
      "chat_template", "tokenize"};
  for (const char* name : kOwn) {
    if (!kwargs.contains(name)) continue;
    const std::string param = cat("chat_template_kwargs.", name);
    refuse(param, param, " is a field of the request, not a variable of the template");
  }
}

void read_variables(const OrderedJson& kwargs, TemplateVariables& out) {
  for (const auto& [name, value] : kwargs.get_ref<const OrderedJson::object_t&>()) {
    if (name == "reasoning_effort") out.reasoning_effort = value.is_string() ? value.get<std::string>() : "";
    if (name == "clear_thinking") out.clear_thinking = is_truthy(value);
    if (name == "enable_thinking") out.enable_thinking = is_truthy(value);
    out.all[name] = value;
  }
}

/// The top-level reasoning_effort; "" if it is not given.
std::string top_level_effort(const OrderedJson& body) {
  static constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                               "high", "xhigh",   "max"};
  const OrderedJson* effort = given(body, "reasoning_effort");
  if (effort == nullptr) return {};
  const std::string& name = need_string(*effort, "reasoning_effort");
  if (std::find(kEfforts.begin(), kEfforts.end(), name) == kEfforts.end()) {
    refuse("reasoning_effort", "reasoning_effort \"", excerpt(name),
           "\" is not known: expected none, minimal, low, medium, high, xhigh or max");
  }
  return name;
}

/// Z.ai's own switch, {"type": "enabled" or "disabled", "clear_thinking"}; true once it says disabled.
bool thinking_disabled(const OrderedJson& thinking) {
  if (thinking.is_boolean()) return !thinking.get<bool>();
  need_object(thinking, "thinking");
  const OrderedJson* type = given(thinking, "type");
  if (type == nullptr) return false;
  const std::string& name = need_string(*type, "thinking.type");
  if (name != "enabled" && name != "disabled" && name != "adaptive" && name != "auto") {
    refuse("thinking.type", "thinking.type \"", excerpt(name),
           "\" is not known: expected enabled or disabled");
  }
  return name == "disabled";
}

/// The more exact fields win over it. GLM-5.3 cannot stop thinking: disabled is as little as it can.
void read_thinking(const OrderedJson& body, const OrderedJson* kwargs, bool has_effort, ChatRequest& out) {
  const OrderedJson* thinking = given(body, "thinking");
  if (thinking == nullptr) return;
  const auto has = [kwargs](const char* name) { return kwargs != nullptr && kwargs->contains(name); };
  TemplateVariables& variables = out.variables;
  if (thinking_disabled(*thinking)) {
    if (!has_effort && !has("reasoning_effort")) {
      variables.reasoning_effort = "low";
      variables.all["reasoning_effort"] = "low";
      out.warnings.emplace_back(
          "thinking \"disabled\" means reasoning_effort \"low\" where a model always thinks");
    }
    if (!has_effort && !has("enable_thinking")) {
      variables.enable_thinking = false;
      variables.all["enable_thinking"] = false;
    }
  }
  const OrderedJson* clear = thinking->is_object() ? given(*thinking, "clear_thinking") : nullptr;
  if (clear != nullptr && !has("clear_thinking")) {
    variables.clear_thinking = need_bool(*clear, "thinking.clear_thinking");
    variables.all["clear_thinking"] = variables.clear_thinking;
  }
}

void read_all_variables(const OrderedJson& body, const ChatRequestOptions& options, ChatRequest& out) {
  TemplateVariables& variables = out.variables;
  if (options.default_template_kwargs.is_object()) read_variables(options.default_template_kwargs, variables);
  const OrderedJson* kwargs = given(body, "chat_template_kwargs");
  if (kwargs != nullptr) {
    need_object(*kwargs, "chat_template_kwargs");
    refuse_own_fields(*kwargs);
    read_variables(*kwargs, variables);
  }
  const std::string top_effort = top_level_effort(body);
  if (!top_effort.empty()) {
    const std::string& effort = top_effort;
    variables.reasoning_effort = effort;
    variables.all["reasoning_effort"] = effort;
    if (kwargs == nullptr || !kwargs->contains("enable_thinking")) {
      variables.enable_thinking = effort != "none";
      variables.all["enable_thinking"] = effort != "none";
    }
  }
  read_thinking(body, kwargs, !top_effort.empty(), out);
  const std::string& effort = variables.reasoning_effort;
  if (!effort.empty() && effort != "low" && effort != "high" && effort != "max") {
    out.warnings.push_back(cat("reasoning_effort \"", excerpt(effort), "\" means max to the chat template"));
  }
}

bool flag(const OrderedJson& body, const char* name, bool otherwise) {
  const OrderedJson* value = given(body, name);
  return value == nullptr ? otherwise : need_bool(*value, name);
}

void read_flags(const OrderedJson& body, ChatRequest& out) {
  out.parallel_tool_calls = flag(body, "parallel_tool_calls", true);
  out.include_reasoning = flag(body, "include_reasoning", true);
  out.continue_final_message = flag(body, "continue_final_message", false);
  out.add_generation_prompt = flag(body, "add_generation_prompt", !out.continue_final_message);
  if (out.continue_final_message && out.add_generation_prompt) {
    refuse("continue_final_message", "continue_final_message and add_generation_prompt exclude each other");
  }
}

}  // namespace

std::vector<ToolDefinition> parse_tools(const OrderedJson& tools, const std::string& param) {
  std::vector<ToolDefinition> out;
  if (tools.is_null()) return out;
  need_list(tools, param);
  if (tools.empty()) refuse(param, param, " must not be an empty list: leave the field out");
  out.reserve(tools.size());
  for (size_t i = 0; i < tools.size(); ++i) out.push_back(tool(tools[i], cat(param, ".", i)));
  return out;
}

ToolChoice parse_tool_choice(const OrderedJson& choice, const std::vector<ToolDefinition>& tools,
                             const std::string& param) {
  if (choice.is_null()) return {tools.empty() ? ToolChoiceMode::none : ToolChoiceMode::automatic, {}};
  if (choice == "none") return {ToolChoiceMode::none, {}};
  if (choice.is_string() && choice != "auto" && choice != "required") {
    refuse(param, param, " \"", excerpt(choice.get_ref<const std::string&>()),
           "\" is not known: expected none, auto, required or a named function");
  }
  if (!choice.is_string() && !choice.is_object()) {
    refuse(param, param, " must be a string or an object, not ", json_kind(choice));
  }
  if (tools.empty()) refuse(param, param, " needs tools, the request has none");
  if (choice == "auto") return {ToolChoiceMode::automatic, {}};
  if (choice == "required") return {ToolChoiceMode::required, {}};

  if (const OrderedJson* type = given(choice, "type"); type == nullptr || *type != "function") {
    refuse(param, param, ".type must be \"function\"");
  }
  const OrderedJson* function = given(choice, "function");
  if (function != nullptr) need_object(*function, param + ".function");
  const OrderedJson* name = function == nullptr ? nullptr : given(*function, "name");
  if (name == nullptr) refuse(param + ".function.name", param, ".function.name is missing");
  const std::string& wanted = need_string(*name, param + ".function.name");
  const bool known = std::any_of(tools.begin(), tools.end(),
                                 [&](const ToolDefinition& entry) { return entry.name == wanted; });
  if (!known)
    refuse(param, param, " names the function \"", excerpt(wanted), "\", which is not among the tools");
  return {ToolChoiceMode::named, wanted};
}

ChatRequest parse_chat_request(const OrderedJson& body, const ChatRequestOptions& options) {
  need_object(body, "body");
  ChatRequest out;
  const OrderedJson nothing;
  const auto field = [&](const char* name) -> const OrderedJson& {
    const OrderedJson* value = given(body, name);
    return value == nullptr ? nothing : *value;
  };
  if (given(body, "messages") == nullptr) refuse("messages", "messages is missing");
  out.messages = parse_chat_messages(field("messages"));
  out.tools = parse_tools(field("tools"));
  out.tool_choice = parse_tool_choice(field("tool_choice"), out.tools);
  if (out.tool_choice.mode == ToolChoiceMode::none && options.exclude_tools_when_tool_choice_none)
    out.tools.clear();
  read_flags(body, out);
  read_all_variables(body, options, out);
  if (const OrderedJson* own = given(body, "chat_template"); own != nullptr) {
    if (!options.trust_request_chat_template) {
      refuse("chat_template",
             "chat_template: this server renders with its own template only (--trust-request-chat-template)");
    }
    out.chat_template = need_string(*own, "chat_template");
    if (out.chat_template.empty()) refuse("chat_template", "chat_template must not be empty: leave it out");
  }
  if (given(body, "documents") != nullptr)
    out.warnings.emplace_back("documents: the chat template does not read them");
  return out;
}

}  // namespace glint
