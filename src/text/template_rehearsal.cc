#include "text/template_rehearsal.h"

#include <array>
#include <string_view>

#include "text/python_json.h"

namespace glint {

namespace {

struct Conversation {
  std::string_view name;
  std::string_view request;
};

constexpr std::array kConversations = {
    Conversation{"a question", R"({"messages": [{"role": "user", "content": " q\n"}]})"},
    Conversation{"system messages", R"({"messages": [{"role": "system", "content": "s"},
        {"role": "user", "content": "q"}, {"role": "system", "content": "t"}]})"},
    Conversation{"effort low",
                 R"({"messages": [{"role": "user", "content": "q"}], "reasoning_effort": "low"})"},
    Conversation{"effort high",
                 R"({"messages": [{"role": "user", "content": "q"}], "reasoning_effort": "high"})"},
    Conversation{"thinking switched off", R"({"messages": [{"role": "user", "content": "q"}],
        "chat_template_kwargs": {"enable_thinking": false}})"},
    Conversation{"no generation prompt",
                 R"({"messages": [{"role": "user", "content": "q"}], "add_generation_prompt": false})"},
    Conversation{"earlier reasoning", R"({"messages": [{"role": "user", "content": "q"},
        {"role": "assistant", "reasoning": " r ", "content": " a "}, {"role": "user", "content": "p"},
        {"role": "assistant", "content": "x<think>y</think> z "}, {"role": "assistant", "content": ""}]})"},
    Conversation{"earlier reasoning cleared", R"({"messages": [{"role": "user", "content": "q"},
        {"role": "assistant", "reasoning": "r", "content": "a"}, {"role": "user", "content": "p"},
        {"role": "assistant", "reasoning": "s", "content": "b"}],
        "chat_template_kwargs": {"clear_thinking": true}})"},
    Conversation{"tools", R"({"messages": [{"role": "user", "content": "q"}], "tools": [
        {"type": "function", "function": {"name": "f", "description": "d \"é\"", "parameters":
        {"type": "object", "properties": {"a": {"type": "number", "minimum": 1.0, "maximum": 1e-7}}}}},
        {"type": "function", "function": {"name": "g"}}]})"},
    Conversation{"tool calls", R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant",
        "content": null, "tool_calls": [{"id": "i", "type": "function", "function": {"name": "f", "arguments":
        "{\"a\": \" s \", \"b\": [1, null, true, {\"c\": 1.50}], \"d\": \"é\", \"e\": 12345678901234567890123}"}},
        {"id": "j", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "j", "content": "second"},
        {"role": "tool", "tool_call_id": "i", "content": [{"type": "text", "text": "first"}]},
        {"role": "user", "content": "p"}]})"},
    Conversation{"several outputs", R"({"messages": [{"role": "user", "content": "q"},
        {"role": "tool", "content": [{"output": "a"}, {"output": "b"}]}, {"role": "tool", "content": "c"}]})"},
};

}  // namespace

std::string first_difference(const ChatTemplate& a, const ChatTemplate& b) {
  for (const Conversation& conversation : kConversations) {
    const ChatRequest request =
        parse_chat_request(parse_python_json(conversation.request, conversation.name));
    if (a.render(request).prompt != b.render(request).prompt) return std::string(conversation.name);
  }
  return {};
}

}  // namespace glint
