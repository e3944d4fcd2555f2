#include "text/template_variables.h"

#include <utility>
#include <vector>

#include "text/python_text.h"

namespace glint {

namespace {

using jinja::Dict;
using jinja::None;
using jinja::Value;

Value tool_call(const ChatToolCall& call) {
  Dict function;
  function.set("name", call.name);
  function.set("arguments", Value::from_json(call.arguments));
  Dict out;
  if (!call.id.empty()) out.set("id", call.id);
  out.set("type", "function");
  out.set("function", std::move(function));
  return {std::move(out)};
}

Value references(const std::vector<std::string>& names) {
  std::vector<Value> out;
  for (const std::string& name : names) {
    Dict part;
    part.set("type", "tool_reference");
    part.set("name", name);
    out.emplace_back(std::move(part));
  }
  return Value::list(std::move(out));
}

void set_results(const std::vector<ChatToolResult>& results, Dict& out) {
  const auto content = [](const ChatToolResult& result) {
    return result.is_references ? references(result.references) : Value(result.text);
  };
  if (results.size() == 1) {
    out.set("content", content(results[0]));
    if (!results[0].id.empty()) out.set("tool_call_id", results[0].id);
    return;
  }
  std::vector<Value> entries;
  for (const ChatToolResult& result : results) {
    Dict entry;
    if (!result.id.empty()) entry.set("tool_call_id", result.id);
    entry.set("output", content(result));
    entries.emplace_back(std::move(entry));
  }
  out.set("content", Value::list(std::move(entries)));
}

Value message(const ChatMessage& from) {
  Dict out;
  switch (from.role) {
    case ChatRole::system:
      out.set("role", "system");
      break;
    case ChatRole::user:
      out.set("role", "user");
      break;
    case ChatRole::assistant:
      out.set("role", "assistant");
      break;
    case ChatRole::tool:
      out.set("role", "tool");
      set_results(from.results, out);
      return {std::move(out)};
  }
  out.set("content", from.text);
  if (from.reasoning) {
    out.set("reasoning", *from.reasoning);
    out.set("reasoning_content", *from.reasoning);
  }
  if (!from.tool_calls.empty()) {
    std::vector<Value> calls;
    for (const ChatToolCall& call : from.tool_calls) calls.push_back(tool_call(call));
    out.set("tool_calls", Value::list(std::move(calls)));
  }
  return {std::move(out)};
}

Value tool(const ToolDefinition& from) {
  Dict function;
  function.set("name", from.name);
  function.set("description", Value::from_json(from.description));
  function.set("parameters", Value::from_json(from.parameters));
  if (from.defer_loading) function.set("defer_loading", true);
  Dict out;
  out.set("type", "function");
  out.set("function", std::move(function));
  return {std::move(out)};
}

}  // namespace

Dict template_variables(const ChatRequest& request) {
  Dict out;
  for (const auto& [name, value] : request.variables.all.get_ref<const OrderedJson::object_t&>()) {
    out.set(name, Value::from_json(value));
  }
  std::vector<Value> messages;
  for (const ChatMessage& from : request.messages) messages.push_back(message(from));
  std::vector<Value> tools;
  for (const ToolDefinition& from : request.tools) tools.push_back(tool(from));
  out.set("messages", Value::list(std::move(messages)));
  out.set("tools", tools.empty() ? Value(None{}) : Value::list(std::move(tools)));
  out.set("documents", None{});
  out.set("add_generation_prompt", request.add_generation_prompt);
  return out;
}

void cut_behind_final_message(const ChatRequest& request, std::string& prompt) {
  const std::string_view last = python_strip(request.messages.back().text);
  const size_t at = prompt.rfind(last);
  if (last.empty() || at == std::string::npos) {
    refuse("continue_final_message",
           "continue_final_message: the chat template does not print the last message's text as it is");
  }
  prompt.resize(at + last.size());
}

}  // namespace glint
