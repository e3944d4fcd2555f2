// The part of a chat request that decides the prompt and how the answer is read: messages, tools, tool choice
// and template variables. Checking and normalising follow the text layer's rules for "what the server does
// before rendering".
//
// The body must come from parse_python_json (text/python_json.h): key order, float forms and big integers
// reach the prompt. Every function throws RequestError, with the dotted path of the field, for a request that
// has to get a 400. null stands for "not given" in every optional field; unknown fields are ignored here (the
// server decides about them).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/request_error.h"
#include "text/tool_schema.h"

namespace glint {

struct ChatToolCall {
  std::string id;  // "" if none was given
  std::string name;
  OrderedJson arguments;  // always an object, decoded from the JSON text that clients send
};

/// One result inside a tool message: most messages have one, a list of {"output": ...} entries has several.
struct ChatToolResult {
  std::string id;  // tool_call_id, else id, else ""
  std::string text;
  bool is_references = false;           // content was a list of {"type": "tool_reference", "name": ...}
  std::vector<std::string> references;  // the names then
};

enum class ChatRole { system, user, assistant, tool };

struct ChatMessage {
  ChatRole role = ChatRole::user;
  std::string text;  // text parts joined without separator; "" for null (tool: see results)
  std::optional<std::string> reasoning;  // assistant: `reasoning`, else `reasoning_content`
  std::vector<ChatToolCall> tool_calls;  // assistant
  std::vector<ChatToolResult> results;   // tool, never empty
};

enum class ToolChoiceMode { none, automatic, required, named };

struct ToolChoice {
  ToolChoiceMode mode = ToolChoiceMode::none;
  std::string name;  // named: the tool
};

/// Variables that GLM templates read. Values keep Python's meaning: only the exact strings count for the
/// effort, truth values for the two switches.
struct TemplateVariables {
  std::string reasoning_effort;  // "" if absent or no string
  bool clear_thinking = false;
  std::optional<bool> enable_thinking;      // absent: not defined
  OrderedJson all = OrderedJson::object();  // every variable that was given, for templates of other families
};

struct ChatRequest {
  std::vector<ChatMessage> messages;  // not empty
  std::vector<ToolDefinition> tools;
  ToolChoice tool_choice;  // `auto` by default if there are tools, else `none`
  bool parallel_tool_calls = true;
  bool include_reasoning = true;
  bool add_generation_prompt = true;  // false by default if continue_final_message is set
  bool continue_final_message = false;
  TemplateVariables variables;
  std::string chat_template;  // the request's own, where the server trusts it; "": the server's counts
  std::vector<std::string> warnings;  // lines for the log, e.g. an effort that the template reads as Max
};

/// Settings of the server that take part.
struct ChatRequestOptions {
  OrderedJson default_template_kwargs;               // --default-chat-template-kwargs; null or an object
  bool exclude_tools_when_tool_choice_none = false;  // leave the tools out of the prompt then
  bool trust_request_chat_template = false;          // --trust-request-chat-template
};

/// Reads messages, tools, tool_choice, parallel_tool_calls, reasoning_effort, chat_template_kwargs,
/// add_generation_prompt, continue_final_message and include_reasoning from `body` (an object).
/// `chat_template` is refused unless the server trusts it, `documents` warned about.
ChatRequest parse_chat_request(const OrderedJson& body, const ChatRequestOptions& options = {});

/// The single checks; `param` is where the value stands in the body. `messages`: a list of at least one
/// message; roles system, developer (becomes system), user, assistant, tool; content a string, null or a list
/// of text parts; media parts are refused. `tools`: null, or a list of at least one function tool.
/// `tool_choice`: null, "none", "auto", "required" or
/// {"type": "function", "function": {"name": ...}} with a name out of `tools`.
std::vector<ChatMessage> parse_chat_messages(const OrderedJson& messages,
                                             const std::string& param = "messages");
std::vector<ToolDefinition> parse_tools(const OrderedJson& tools, const std::string& param = "tools");
ToolChoice parse_tool_choice(const OrderedJson& choice, const std::vector<ToolDefinition>& tools,
                             const std::string& param = "tool_choice");

}  // namespace glint
