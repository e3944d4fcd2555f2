// What a chat request may hold, and where the error points when it holds something else.
#include "text/chat_request.h"

#include <gtest/gtest.h>

#include "text_cases.h"

namespace glint::test {
namespace {

ChatRequest parsed(const std::string& body, const ChatRequestOptions& options = {}) {
  return parse_chat_request(parse_python_json(body, "body"), options);
}

std::string with_message(const std::string& message) {
  return R"({"messages": [{"role": "user", "content": "q"}, )" + message + "]}";
}

std::string with_field(const std::string& field) {
  return R"({"messages": [{"role": "user", "content": "q"}], )" + field + "}";
}

constexpr const char* kTool = R"("tools": [{"type": "function", "function": {"name": "f"}}])";

/// The param of the refusal; "accepted" if there is none. The message is one line and names the param.
std::string refusal(const std::string& body) {
  try {
    parsed(body);
  } catch (const RequestError& error) {
    const std::string line = error.what();
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_NE(line.find(error.param().substr(0, error.param().find('.'))), std::string::npos) << line;
    return error.param();
  }
  return "accepted";
}

TEST(ChatRequest, ErrorCasesOfItsFields) {
  const std::map<std::string, std::string> params = {{"err-001", "tools"},
                                                     {"err-002", "tool_choice"},
                                                     {"err-003", "tool_choice"},
                                                     {"err-004", "tool_choice"},
                                                     {"err-005", "tool_choice.function.name"},
                                                     {"err-011", "reasoning_effort"},
                                                     {"err-031", "continue_final_message"},
                                                     {"err-033", "accepted"}};
  size_t seen = 0;
  for (const OrderedJson& line : text_cases()) {
    const auto expected = params.find(line["id"].get<std::string>());
    if (expected == params.end()) continue;
    ++seen;
    EXPECT_EQ(refusal(line["request"].dump()), expected->second) << expected->first;
    if (line["expected"].contains("param")) {
      EXPECT_EQ(line["expected"]["param"], expected->second);
    }
  }
  EXPECT_EQ(seen, params.size());
}

TEST(ChatRequest, MessagesArePointedAt) {
  EXPECT_EQ(refusal("{}"), "messages");
  EXPECT_EQ(refusal(R"({"messages": null})"), "messages");
  EXPECT_EQ(refusal(R"({"messages": []})"), "messages");
  EXPECT_EQ(refusal(R"({"messages": "hi"})"), "messages");
  EXPECT_EQ(refusal(with_message("3")), "messages.1");
  EXPECT_EQ(refusal(with_message("{}")), "messages.1.role");
  EXPECT_EQ(refusal(with_message(R"({"role": "function", "content": "x"})")), "messages.1.role");
  EXPECT_EQ(refusal(with_message(R"({"role": "user", "content": 3})")), "messages.1.content");
  EXPECT_EQ(refusal(with_message(R"({"role": "user", "content": {"a": 1}})")), "messages.1.content");
  EXPECT_EQ(refusal(with_message(R"({"role": "user", "content": [3]})")), "messages.1.content.0");
  EXPECT_EQ(refusal(with_message(R"({"role": "user", "content": ["a", {"text": "b"}]})")),
            "messages.1.content.1.type");
  EXPECT_EQ(refusal(with_message(R"({"role": "user", "content": [{"type": "text"}]})")),
            "messages.1.content.0.text");
  EXPECT_EQ(refusal(with_message(R"({"role": "user", "content": [{"type": "image_url", "image_url": {}}]})")),
            "messages.1.content.0");
  EXPECT_EQ(refusal(with_message(R"({"role": "assistant", "reasoning": 3})")), "messages.1.reasoning");
  EXPECT_EQ(refusal(with_message(R"({"role": "assistant", "tool_calls": {}})")), "messages.1.tool_calls");
  EXPECT_EQ(refusal(with_message(R"({"role": "assistant", "tool_calls": [{}]})")),
            "messages.1.tool_calls.0.function");
  EXPECT_EQ(refusal(with_message(R"({"role": "assistant", "tool_calls": [{"function": {}}]})")),
            "messages.1.tool_calls.0.function.name");
  EXPECT_EQ(refusal(with_message(R"({"role": "assistant", "function_call": {"name": "f"}})")),
            "messages.1.function_call");
  EXPECT_EQ(refusal(with_message(R"({"role": "tool", "content": [{"output": "a"}, {"text": "b"}]})")),
            "messages.1.content.1.output");
  EXPECT_EQ(refusal(with_message(R"({"role": "tool", "content": [{"type": "tool_reference"}]})")),
            "messages.1.content.0.name");
  EXPECT_EQ(refusal(with_message(R"({"role": "tool", "tool_call_id": 7, "content": "x"})")),
            "messages.1.tool_call_id");
}

TEST(ChatRequest, ReasoningHasTwoNamesAndTheNewOneWins) {
  const auto reasoning = [](const std::string& fields) {
    return parsed(with_message(R"({"role": "assistant", )" + fields + "}")).messages[1].reasoning;
  };
  EXPECT_EQ(reasoning(R"("reasoning_content": "old", "reasoning": "new")"), "new");
  EXPECT_EQ(reasoning(R"("reasoning_content": "old", "reasoning": null)"), "old");
  EXPECT_EQ(reasoning(R"("reasoning_content": "", "content": "a</think>b")"), "");
  EXPECT_EQ(reasoning(R"("content": "a")"), std::nullopt);
}

TEST(ChatRequest, ArgumentsMustBeTheTextOfAnObject) {
  const auto with_arguments = [](const std::string& arguments) {
    return with_message(R"({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": )" +
                        arguments + "}}]}");
  };
  const std::string place = "messages.1.tool_calls.0.function.arguments";
  for (const char* wrong : {R"("{")", R"("[]")", R"("3")", R"("null")", R"(" ")", "[]", "3",
                            R"("{\"a\": NaN}")", R"("{\"a\": 1e999}")", R"("{\"a\": \"\\ud800\"}")"}) {
    EXPECT_EQ(refusal(with_arguments(wrong)), place) << wrong;
  }
  for (const char* right : {R"("{}")", R"("")", "null", R"({"a": 1})", R"("{\"a\": [1, null]}")"}) {
    EXPECT_EQ(refusal(with_arguments(right)), "accepted") << right;
  }
}

TEST(ChatRequest, ToolsArePointedAt) {
  EXPECT_EQ(refusal(with_field(R"("tools": {})")), "tools");
  EXPECT_EQ(refusal(with_field(R"("tools": [3])")), "tools.0");
  EXPECT_EQ(refusal(with_field(R"("tools": [{"type": "web_search"}])")), "tools.0.type");
  EXPECT_EQ(refusal(with_field(R"("tools": [{"type": "function"}])")), "tools.0.function");
  EXPECT_EQ(refusal(with_field(R"("tools": [{"function": {}}])")), "tools.0.function.name");
  EXPECT_EQ(refusal(with_field(R"("tools": [{"function": {"name": "f", "description": 3}}])")),
            "tools.0.function.description");
  EXPECT_EQ(refusal(with_field(R"("tools": [{"function": {"name": "f", "parameters": "x"}}])")),
            "tools.0.function.parameters");
  EXPECT_EQ(refusal(with_field(std::string(kTool) + R"(, "tool_choice": 3)")), "tool_choice");
  EXPECT_EQ(refusal(with_field(std::string(kTool) + R"(, "tool_choice": {"type": "allowed_tools"})")),
            "tool_choice");
}

TEST(ChatRequest, OtherFieldsArePointedAt) {
  EXPECT_EQ(refusal(with_field(R"("parallel_tool_calls": "no")")), "parallel_tool_calls");
  EXPECT_EQ(refusal(with_field(R"("reasoning_effort": 3)")), "reasoning_effort");
  EXPECT_EQ(refusal(with_field(R"("chat_template_kwargs": [])")), "chat_template_kwargs");
  EXPECT_EQ(refusal(with_field(R"("chat_template_kwargs": {"tools": []})")), "chat_template_kwargs.tools");
  EXPECT_EQ(refusal(with_field(R"("chat_template": "x")")), "chat_template");
  EXPECT_EQ(refusal(with_field(R"("chat_template": null, "documents": null)")), "accepted");
}

TEST(ChatRequest, ToolChoice) {
  EXPECT_EQ(parsed(with_field(R"("n": 1)")).tool_choice.mode, ToolChoiceMode::none);
  EXPECT_EQ(parsed(with_field(kTool)).tool_choice.mode, ToolChoiceMode::automatic);
  EXPECT_EQ(parsed(with_field(R"("tool_choice": "none")")).tool_choice.mode, ToolChoiceMode::none);
  const auto required = parsed(with_field(std::string(kTool) + R"(, "tool_choice": "required")"));
  EXPECT_EQ(required.tool_choice.mode, ToolChoiceMode::required);
  const auto named = parsed(
      with_field(std::string(kTool) + R"(, "tool_choice": {"type": "function", "function": {"name": "f"}})"));
  EXPECT_EQ(named.tool_choice.mode, ToolChoiceMode::named);
  EXPECT_EQ(named.tool_choice.name, "f");
  const std::string none = with_field(std::string(kTool) + R"(, "tool_choice": "none")");
  EXPECT_EQ(parsed(none).tools.size(), 1U);
  EXPECT_TRUE(parsed(none, {{}, true}).tools.empty());
}

TEST(ChatRequest, VariablesHaveThreeSources) {
  ChatRequestOptions options;
  options.default_template_kwargs = {
      {"reasoning_effort", "low"}, {"clear_thinking", true}, {"enable_thinking", false}};
  EXPECT_EQ(parsed(with_field(R"("n": 1)"), options).variables.reasoning_effort, "low");
  EXPECT_TRUE(parsed(with_field(R"("n": 1)"), options).variables.clear_thinking);
  EXPECT_EQ(parsed(with_field(R"("n": 1)"), options).variables.enable_thinking, false);
  const auto own = parsed(
      with_field(R"("chat_template_kwargs": {"reasoning_effort": "high", "clear_thinking": 0})"), options);
  EXPECT_EQ(own.variables.reasoning_effort, "high");
  EXPECT_FALSE(own.variables.clear_thinking);
  EXPECT_EQ(parsed(with_field(R"("reasoning_effort": "max")"), options).variables.enable_thinking, true);
}

TEST(ChatRequest, ThinkingIsZaisSwitch) {
  const auto variables = [](const char* field) { return parsed(with_field(field)).variables; };
  for (const char* off : {R"("thinking": {"type": "disabled"})", R"("thinking": false)"}) {
    EXPECT_EQ(variables(off).reasoning_effort, "low") << off;
    EXPECT_EQ(variables(off).enable_thinking, false) << off;
    EXPECT_EQ(parsed(with_field(off)).warnings.size(), 1U) << off;
  }
  for (const char* on : {R"("thinking": {"type": "enabled"})", R"("thinking": {})", R"("thinking": true)"}) {
    EXPECT_EQ(variables(on).reasoning_effort, "") << on;
    EXPECT_FALSE(variables(on).enable_thinking) << on;
  }
  // What says it more exactly wins.
  EXPECT_EQ(variables(R"("thinking": false, "reasoning_effort": "high")").reasoning_effort, "high");
  EXPECT_EQ(
      variables(R"("thinking": false, "chat_template_kwargs": {"reasoning_effort": "max"})").reasoning_effort,
      "max");
  EXPECT_EQ(
      variables(R"("thinking": false, "chat_template_kwargs": {"enable_thinking": true})").enable_thinking,
      true);
  EXPECT_TRUE(variables(R"("thinking": {"type": "enabled", "clear_thinking": true})").clear_thinking);
  EXPECT_FALSE(
      variables(R"("thinking": {"clear_thinking": true}, "chat_template_kwargs": {"clear_thinking": false})")
          .clear_thinking);
  EXPECT_EQ(refusal(with_field(R"("thinking": {"type": "maybe"})")), "thinking.type");
  EXPECT_EQ(refusal(with_field(R"("thinking": "disabled")")), "thinking");
  EXPECT_EQ(refusal(with_field(R"("thinking": {"clear_thinking": 1})")), "thinking.clear_thinking");
}

TEST(ChatRequest, AnEffortThatMeansMaxIsWarnedAbout) {
  EXPECT_EQ(parsed(with_field(R"("reasoning_effort": "none")")).warnings.size(), 1U);
  EXPECT_EQ(parsed(with_field(R"("chat_template_kwargs": {"reasoning_effort": "hgih"})")).warnings.size(),
            1U);
  EXPECT_TRUE(parsed(with_field(R"("reasoning_effort": "low")")).warnings.empty());
}

TEST(ChatRequest, LongEchoesAreCutBetweenCharacters) {
  std::string word;
  for (int i = 0; i < 500; ++i) word += "ü";
  try {
    parsed(with_field(R"("reasoning_effort": "x)" + word + "\""));
    ADD_FAILURE();
  } catch (const RequestError& error) {
    const std::string line = error.what();
    EXPECT_LT(line.size(), 400U);
    EXPECT_NE(line.find("üü\""), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace glint::test
