// POST /v1/messages and /v1/messages/count_tokens against a scripted engine: what the prompt becomes, which
// events a stream has, which errors come back.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "api_fixture.h"
#include "byte_tokenizer.h"
#include "sse_reader.h"

namespace glint {
namespace {

OrderedJson message_request(const OrderedJson& content = "Hi") {
  return {{"model", "glm-5.3"},
          {"max_tokens", 100},
          {"messages", OrderedJson::array({{{"role", "user"}, {"content", content}}})}};
}

OrderedJson ping_tool() {
  return OrderedJson::parse(
      R"([{"name": "ping_gateway", "description": "Pings.", "input_schema": {"type": "object", "properties": {}}}])");
}

class MessagesTest : public ApiTest {
 protected:
  [[nodiscard]] RawResponse messages(const OrderedJson& body) const { return post("/v1/messages", body); }
  [[nodiscard]] OrderedJson whole(const OrderedJson& body) const {
    const RawResponse response = messages(body);
    EXPECT_EQ(response.status, 200) << response.body;
    return OrderedJson::parse(response.body);
  }
  [[nodiscard]] std::vector<SseEvent> stream(OrderedJson body) const {
    body["stream"] = true;
    const RawResponse response = messages(body);
    EXPECT_EQ(response.status, 200) << response.body;
    return read_sse(response.body);
  }
  void plays(const FakeScript& script) {
    engine->script = [script](const EngineRequest& /*request*/) { return script; };
  }
  /// The prompt that the request became.
  [[nodiscard]] std::string prompt_of(const OrderedJson& body) const {
    const RawResponse response = messages(body);
    EXPECT_EQ(response.status, 200) << response.body;
    return tokenizer->decode(engine->submitted().back().prompt, false);
  }
  [[nodiscard]] std::string refusal(const OrderedJson& body) const {
    const RawResponse response = messages(body);
    EXPECT_EQ(response.status, 400) << response.body;
    const OrderedJson json = OrderedJson::parse(response.body);
    EXPECT_EQ(json.at("type"), "error");
    EXPECT_EQ(json.at("error").at("type"), "invalid_request_error");
    return json.at("error").at("message");
  }
};

/// "content_block_start thinking 0" and so on, as the shared case writes events down.
std::string line_of(const SseEvent& event) {
  std::string line = event.name;
  const OrderedJson& data = event.data;
  EXPECT_EQ(data.at("type"), event.name);
  if (data.contains("content_block")) line += " " + data["content_block"].at("type").get<std::string>();
  if (event.name == "content_block_delta") line += " " + data.at("delta").at("type").get<std::string>();
  if (event.name == "content_block_start" || event.name == "content_block_stop") {
    line += " " + std::to_string(data.at("index").get<int>());
  }
  if (event.name == "message_delta")
    line += " stop_reason " + data.at("delta").at("stop_reason").get<std::string>();
  return line;
}

TEST_F(MessagesTest, TheSharedStreamCase) {
  start();
  std::ifstream file(std::string(GLINT_TEST_DATA) + "/text/text-cases.jsonl");
  int seen = 0;
  for (std::string line; std::getline(file, line);) {
    const OrderedJson one = OrderedJson::parse(line);
    if (!one.contains("endpoint") || one["endpoint"] != "/v1/messages") continue;
    ++seen;
    FakeScript script = script_of_pieces(one.at("chunks").get<std::vector<std::string>>());
    script.stop_token = kObservation;
    plays(script);
    OrderedJson body = message_request();
    body["tools"] = ping_tool();
    std::vector<std::string> lines;
    for (const SseEvent& event : stream(body)) lines.push_back(line_of(event));
    EXPECT_EQ(lines, one.at("expected").at("anthropic_events").get<std::vector<std::string>>())
        << one.at("id");
  }
  EXPECT_EQ(seen, 1);
}

/// However the tokens are grouped into steps: one open block at a time, deltas only to it, whole = streamed.
TEST_F(MessagesTest, BlocksAtEveryCut) {
  start();
  const std::string text =
      "plan A</think>Let me look.<tool_call>get_weather<arg_key>city</arg_key><arg_value>Köln</arg_value>"
      "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call><tool_call>ping_gateway</tool_call>";
  OrderedJson body = message_request();
  body["tools"] = ping_tool();
  body["tools"].push_back(OrderedJson::parse(
      R"({"name": "get_weather", "input_schema": {"type": "object",
          "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}})"));
  plays(script_of(text));
  const OrderedJson expected = whole(body);
  EXPECT_EQ(expected.at("stop_reason"), "tool_use");
  ASSERT_EQ(expected.at("content").size(), 4U);
  EXPECT_EQ(expected["content"][2].at("input"), OrderedJson::parse(R"({"city": "Köln", "days": 3})"));
  EXPECT_EQ(expected["content"][3].at("input"), OrderedJson::object());
  for (size_t cut = 1; cut < text.size(); ++cut) {
    plays(script_of_pieces({text.substr(0, cut), text.substr(cut)}));
    const OrderedJson streamed = add_up_message(stream(body));
    ASSERT_EQ(streamed.at("content").size(), 4U) << cut;
    EXPECT_EQ(streamed.at("stop_reason"), "tool_use");
    EXPECT_EQ(streamed.at("usage"), expected.at("usage"));
    for (size_t i = 0; i < 4; ++i) {
      for (const char* key : {"type", "thinking", "text", "name", "input"}) {
        EXPECT_EQ(streamed["content"][i].value(key, OrderedJson()),
                  expected["content"][i].value(key, OrderedJson()))
            << cut;
      }
    }
  }
}

TEST_F(MessagesTest, WholeAnswer) {
  start();
  const OrderedJson answer = whole(message_request());
  EXPECT_EQ(answer.at("type"), "message");
  EXPECT_EQ(answer.at("role"), "assistant");
  EXPECT_EQ(answer.at("model"), "glm-5.3");
  EXPECT_EQ(answer.at("id").get<std::string>().substr(0, 4), "msg_");
  EXPECT_EQ(answer.at("content").at(0).at("type"), "thinking");
  EXPECT_EQ(answer.at("content").at(0).at("thinking"), "thought");
  EXPECT_FALSE(answer.at("content").at(0).at("signature").get<std::string>().empty());
  EXPECT_EQ(answer.at("content").at(1), OrderedJson::parse(R"({"type": "text", "text": "answer"})"));
  EXPECT_EQ(answer.at("stop_reason"), "end_turn");
  EXPECT_TRUE(answer.at("stop_sequence").is_null());
  EXPECT_EQ(answer.at("usage").at("input_tokens"), engine->submitted()[0].prompt.size());
  EXPECT_EQ(answer.at("usage").at("output_tokens"), 15);
  EXPECT_EQ(answer.at("usage").at("output_tokens_details").at("thinking_tokens"), 7);
}

TEST_F(MessagesTest, StopReasons) {
  start();
  plays(script_of("r</think>one STOP two"));
  OrderedJson body = message_request();
  body["stop_sequences"] = {"never", "STOP"};
  OrderedJson answer = whole(body);
  EXPECT_EQ(answer.at("stop_reason"), "stop_sequence");
  EXPECT_EQ(answer.at("stop_sequence"), "STOP");
  EXPECT_EQ(answer.at("content").at(1).at("text"), "one ");
  EXPECT_EQ(add_up_message(stream(body)).at("stop_sequence"), "STOP");
  body["max_tokens"] = 4;
  answer = whole(body);
  EXPECT_EQ(answer.at("stop_reason"), "max_tokens");
  EXPECT_EQ(answer.at("content").at(1).at("text"), "on");
  EXPECT_EQ(add_up_message(stream(body)).at("stop_reason"), "max_tokens");
  // Nothing but thoughts: no empty text block.
  plays(script_of("only thoughts"));
  EXPECT_EQ(whole(message_request()).at("content").size(), 1U);
}

/// A call inside the thoughts, cut by max_tokens wherever it may be: tool_use is said with its block or not
/// at all, whole and streamed.
TEST_F(MessagesTest, AToolStopHasItsBlock) {
  start();
  const std::string text = "plan <tool_call>ping_gateway</tool_call><tool_call>ping_gateway</tool_call>";
  plays(script_of(text));
  OrderedJson body = message_request();
  body["tools"] = ping_tool();
  std::set<std::string> seen;
  for (int64_t most = 1; most <= static_cast<int64_t>(ids_of(text).size()) + 1; ++most) {
    body["max_tokens"] = most;
    for (const OrderedJson& answer : {whole(body), add_up_message(stream(body))}) {
      const OrderedJson& content = answer.at("content");
      const bool called = std::any_of(content.begin(), content.end(), [](const OrderedJson& block) {
        return block.at("type") == "tool_use";
      });
      const std::string reason = answer.at("stop_reason");
      seen.insert(reason);
      if (reason == "tool_use") {
        EXPECT_TRUE(called) << most;
      } else {
        EXPECT_EQ(reason, "max_tokens") << most;
      }
    }
  }
  EXPECT_EQ(seen, (std::set<std::string>{"max_tokens", "tool_use"}));
}

TEST_F(MessagesTest, NothingBeforeTheFirstToken) {
  automatic_steps = false;
  start();
  plays(script_of_pieces({"", "t", "u"}));
  OrderedJson body = message_request();
  body["stream"] = true;
  RawClient client(port());
  ASSERT_TRUE(client.send(post_text("/v1/messages", dump_json(body))));
  EXPECT_NE(client.read_until("\r\n\r\n").find("200 OK"), std::string::npos);
  ASSERT_TRUE(eventually([&] { return engine->running() == 1; }));
  engine->step();
  engine->step();
  const std::string first = client.read_until("\n\n\r\n");
  EXPECT_NE(first.find("event: message_start"), std::string::npos) << first;
  EXPECT_NE(first.find("\"thinking_delta\",\"thinking\":\"t\""), std::string::npos) << first;
}

TEST_F(MessagesTest, PromptsOfEveryBlock) {
  start();
  const auto of = [&](const char* text) {
    OrderedJson body = OrderedJson::parse(text);
    body["max_tokens"] = 5;
    return prompt_of(body);
  };
  const std::string head = "[gMASK]<sop><|system|>Reasoning Effort: Max";
  const std::string tail = "<|assistant|><think>";
  EXPECT_EQ(
      of(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]}]})"),
      head + "<|user|>a b" + tail);
  EXPECT_EQ(of(R"({"system": "S", "messages": [{"role": "user", "content": "q"}]})"),
            head + "<|system|>S<|user|>q" + tail);
  EXPECT_EQ(of(R"({"system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=9af;"},
                              {"type": "text", "text": "You are "}, {"type": "text", "text": "G.", "cache_control": {"type": "ephemeral"}}],
                   "messages": [{"role": "system", "content": "Mind the gap."}, {"role": "user", "content": "q"}]})"),
            head + "<|system|>You are G.\nMind the gap.<|user|>q" + tail);
  // A tool loop: thinking and calls in one turn, results in front of the text of their turn, in the order of
  // the calls.
  EXPECT_EQ(
      of(R"({"messages": [{"role": "user", "content": "q"},
           {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "x"},
              {"type": "redacted_thinking", "data": "zz"}, {"type": "text", "text": "Calling."},
              {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1, "b": "x"}},
              {"type": "tool_use", "id": "t2", "name": "g", "input": {}}]},
           {"role": "user", "content": [{"type": "text", "text": "and?"},
              {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "l1"}, {"type": "text", "text": "l2"}]},
              {"type": "tool_result", "tool_use_id": "t1", "content": "R", "is_error": true}]}]})"),
      head +
          "<|user|>q<|assistant|><think>hm</think>Calling.<tool_call>f<arg_key>a</arg_key><arg_value>1</"
          "arg_value>"
          "<arg_key>b</arg_key><arg_value>x</arg_value></tool_call><tool_call>g</tool_call>"
          "<|observation|><tool_response>R</tool_response><tool_response>l1\nl2</tool_response><|user|>and?" +
          tail);
  // Only calls, no text; an empty result.
  EXPECT_EQ(of(R"({"messages": [{"role": "user", "content": "q"},
           {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
           {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]}]})"),
            head +
                "<|user|>q<|assistant|><think></think><tool_call>f</tool_call><|observation|>"
                "<tool_response></tool_response>" +
                tail);
  EXPECT_EQ(of(R"({"messages": [{"role": "user", "content": [
           {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "D"}}, {"type": "text", "text": "q"}]}]})"),
            head + "<|user|>Dq" + tail);
  // A final turn of the assistant is continued.
  EXPECT_EQ(
      of(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "The answer is ("}]})"),
      head + "<|user|>q<|assistant|><think></think>The answer is (");
}

TEST_F(MessagesTest, ToolsAndTheirReferences) {
  start();
  const std::string prompt = prompt_of(OrderedJson::parse(R"({"max_tokens": 5,
      "tools": [{"name": "f", "description": "F.", "input_schema": {"type": "object"}, "strict": true, "cache_control": {"type": "ephemeral"}},
                {"type": "custom", "name": "later", "input_schema": {"type": "object"}, "defer_loading": true}],
      "messages": [{"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
           "content": [{"type": "tool_reference", "tool_name": "later"}]}]}]})"));
  EXPECT_NE(prompt.find("<tools>\n{\"name\": \"f\", \"description\": \"F.\", \"parameters\": {\"type\": "
                        "\"object\"}}\n</tools>"),
            std::string::npos)
      << prompt;
  EXPECT_NE(
      prompt.find(
          "<tool_response><tools>\n{\"name\": \"later\", \"description\": null, \"parameters\": {\"type\": "
          "\"object\"}}\n</tools></tool_response>"),
      std::string::npos)
      << prompt;
}

TEST_F(MessagesTest, ThinkingAndEffort) {
  start();
  OrderedJson body = message_request();
  body["thinking"] = {{"type", "enabled"}, {"budget_tokens", 64}};
  EXPECT_NE(prompt_of(body).find("Effort: Max"), std::string::npos);
  EXPECT_EQ(engine->submitted().back().sampling.reasoning.budget, 64);
  body["thinking"] = {{"type", "adaptive"}};
  body["output_config"] = {{"effort", "high"}};
  EXPECT_NE(prompt_of(body).find("Effort: High"), std::string::npos);
  EXPECT_EQ(engine->submitted().back().sampling.reasoning.budget, -1);
  // GLM-5.3 cannot stop thinking: the least of it, and not shown.
  body = message_request();
  body["thinking"] = {{"type", "disabled"}};
  EXPECT_NE(prompt_of(body).find("Effort: Low"), std::string::npos);
  const OrderedJson answer = whole(body);
  ASSERT_EQ(answer.at("content").size(), 1U);
  EXPECT_EQ(answer["content"][0].at("text"), "answer");
  EXPECT_EQ(add_up_message(stream(body)).at("content").size(), 1U);
}

TEST_F(MessagesTest, SamplingFields) {
  start();
  OrderedJson body = message_request();
  body.update({{"temperature", 0.5},
               {"top_p", 0.25},
               {"top_k", 7},
               {"seed", 11},
               {"min_p", 0.125},
               {"metadata", {{"user_id", "u"}}}});
  static_cast<void>(whole(body));
  const SamplingParams& sampling = engine->submitted().back().sampling;
  EXPECT_EQ(sampling.max_tokens, 100);
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_p, 0.25F);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.min_p, 0.125F);
  EXPECT_EQ(sampling.seed, 11U);
}

TEST_F(MessagesTest, CountTokensIsThePromptsLength) {
  start();
  OrderedJson body = message_request();
  body["tools"] = ping_tool();
  body["system"] = "Sys";
  static_cast<void>(whole(body));
  const size_t prompt = engine->submitted().back().prompt.size();
  body.erase("max_tokens");
  const RawResponse response = post("/v1/messages/count_tokens", body);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(OrderedJson::parse(response.body), (OrderedJson{{"input_tokens", prompt}}));
  EXPECT_EQ(engine->submitted().size(), 1U) << "counting generates nothing";
  EXPECT_EQ(post("/v1/messages/count_tokens", OrderedJson::object()).status, 400);
}

TEST_F(MessagesTest, CachedTokensStandBesideTheOthers) {
  settings.prompt_tokens_details = true;
  start();
  engine->cached_tokens_now = 5;
  const OrderedJson usage = whole(message_request()).at("usage");
  EXPECT_EQ(usage.at("cache_read_input_tokens"), 5);
  EXPECT_EQ(usage.at("input_tokens"), engine->submitted()[0].prompt.size() - 5);
}

TEST_F(MessagesTest, Refusals) {
  start();
  const auto with = [](const char* key, const char* value) {
    OrderedJson body = message_request();
    body[key] = OrderedJson::parse(value);
    return body;
  };
  const auto content = [&](const char* text) { return refusal(message_request(OrderedJson::parse(text))); };
  OrderedJson body = message_request();
  body.erase("max_tokens");
  EXPECT_EQ(refusal(body), "max_tokens: Field required");
  EXPECT_NE(refusal(with("messages", "[]")).find("messages"), std::string::npos);
  EXPECT_NE(refusal(with("messages", "3")).find("messages"), std::string::npos);
  EXPECT_NE(refusal(with("messages", R"([{"role": "tool", "content": "x"}])")).find("messages.0.role"),
            std::string::npos);
  EXPECT_NE(refusal(with("messages", R"([{"role": "user"}])")).find("messages.0.content"), std::string::npos);
  EXPECT_NE(content(R"([{"type": "image", "source": {}}])").find("text only"), std::string::npos);
  EXPECT_NE(content(R"([{"type": "nonsense"}])").find("messages.0.content.0.type"), std::string::npos);
  EXPECT_NE(content(R"([{"type": "tool_result"}])").find("tool_use_id"), std::string::npos);
  EXPECT_NE(content(R"([{"type": "tool_use", "id": "a", "name": "f"}])").find("messages.0.content.0.type"),
            std::string::npos);
  EXPECT_NE(content("[7]").find("messages.0.content.0"), std::string::npos);
  EXPECT_NE(
      refusal(with("tools", R"([{"type": "web_search_20250305", "name": "web_search"}])")).find("web_search"),
      std::string::npos);
  EXPECT_NE(refusal(with("tools", R"([{"name": "f"}])")).find("tools.0.input_schema"), std::string::npos);
  EXPECT_NE(refusal(with("tool_choice", R"({"type": "any"})")).find("tool"), std::string::npos);
  EXPECT_NE(refusal(with("tool_choice", R"({"type": "sometimes"})")).find("tool_choice.type"),
            std::string::npos);
  EXPECT_NE(refusal(with("thinking", R"({"type": "enabled", "budget_tokens": -1})")).find("budget_tokens"),
            std::string::npos);
  EXPECT_NE(refusal(with("mcp_servers", R"([{"name": "m"}])")).find("mcp_servers"), std::string::npos);
  EXPECT_NE(refusal(with("temperature", "3")).find("temperature"), std::string::npos);
  EXPECT_NE(refusal(with("stop_sequences", "[1]")).find("stop"), std::string::npos);
  EXPECT_NE(refusal(with("max_tokens", "0")).find("max_tokens"), std::string::npos);
}

TEST_F(MessagesTest, RefusalsNameWhatWasSent) {
  start();
  struct Case {
    const char* field;
    const char* value;
    const char* begin;
  };
  const Case cases[] = {{"output_config", R"({"effort": "bogus"})", "output_config.effort \"bogus\""},
                        {"stop_sequences", R"([""])", "stop_sequences must not"},
                        {"stop_sequences", "[5]", "body.stop_sequences: expected"},
                        {"tools", R"([{"name": "", "input_schema": {}}])", "tools.0.name must"},
                        {"system", "5", "system must be a string or a list, not a number"},
                        {"messages", R"([{"role": "user", "content": 5}])",
                         "messages.0.content must be a string or a list, not a number"}};
  for (const char* path : {"/v1/messages", "/v1/messages/count_tokens"}) {
    for (const Case& one : cases) {
      const std::string_view field = one.field;
      if (path != std::string_view("/v1/messages") && field == "stop_sequences") continue;
      OrderedJson body = message_request();
      body[one.field] = OrderedJson::parse(one.value);
      const RawResponse response = post(path, body);
      EXPECT_EQ(response.status, 400) << response.body;
      const std::string message = OrderedJson::parse(response.body).at("error").at("message");
      EXPECT_TRUE(message.starts_with(one.begin)) << message;
    }
  }
}

TEST_F(MessagesTest, TooLongIsSaidInAnthropicsWords) {
  start();
  engine->limits_now.max_model_len = 200;
  const std::string prompt(300, 'x');
  EXPECT_NE(refusal(message_request(prompt)).find("prompt is too long: "), std::string::npos);
  OrderedJson body = message_request();
  body["max_tokens"] = 190;
  EXPECT_NE(refusal(body).find(" + 190 > 200, decrease input length or `max_tokens` and try again"),
            std::string::npos);
}

/// What is sampled under is what the same request gets from /v1/chat/completions.
TEST_F(MessagesTest, ConstrainedAsInChat) {
  if (!grammars_built()) GTEST_SKIP() << kGrammarsNotBuilt;
  use_grammars();
  start();
  const OrderedJson schema = OrderedJson::parse(
      R"({"type": "object", "properties": {"city": {"enum": ["Bonn", "Köln"]}, "days": {"type": "integer", "maximum": 9}},
          "required": ["days"], "additionalProperties": false})");
  const auto expect_same = [&](const char* what, const OrderedJson& own, const OrderedJson& of_chat,
                               bool constrained) {
    OrderedJson body = message_request();
    body["tools"] = ping_tool();
    body["tools"].push_back({{"name", "forecast"}, {"input_schema", schema}});
    body.update(own);
    OrderedJson twin = user_request();
    for (const OrderedJson& tool : body["tools"]) {
      OrderedJson function{{"name", tool["name"]}, {"parameters", tool["input_schema"]}};
      twin["tools"].push_back({{"type", "function"}, {"function", std::move(function)}});
    }
    twin.update(of_chat);
    expect_masks_of_chat(
        what, [&] { static_cast<void>(whole(body)); }, twin, constrained);
  };
  const OrderedJson named = OrderedJson::parse(R"({"type": "function", "function": {"name": "forecast"}})");
  const OrderedJson format{{"type", "json_schema"}, {"schema", schema}};
  const OrderedJson of_chat{
      {"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", schema}}}}}};
  expect_same("any", {{"tool_choice", {{"type", "any"}}}}, {{"tool_choice", "required"}}, true);
  expect_same("one", {{"tool_choice", {{"type", "any"}, {"disable_parallel_tool_use", true}}}},
              {{"tool_choice", "required"}, {"parallel_tool_calls", false}}, true);
  expect_same("tool", {{"tool_choice", {{"type", "tool"}, {"name", "forecast"}}}}, {{"tool_choice", named}},
              true);
  expect_same("auto", {{"tool_choice", {{"type", "auto"}}}}, {{"tool_choice", "auto"}},
              settings.tool_call_constraint == ToolCallConstraintMode::all);
  expect_same("none", {{"tool_choice", {{"type", "none"}}}}, {{"tool_choice", "none"}}, false);
  expect_same("output_config", {{"output_config", {{"format", format}}}}, of_chat, true);
  expect_same("output_format", {{"output_format", format}}, of_chat, true);
}

TEST_F(MessagesTest, DemandedCallsAndRefusedForms) {
  if (!grammars_built()) GTEST_SKIP() << kGrammarsNotBuilt;
  use_grammars();
  start();
  OrderedJson body = message_request();
  body["tools"] = ping_tool();
  body["tool_choice"] = {{"type", "tool"}, {"name", "ping_gateway"}};
  plays(script_of("r</think><tool_call>ping_gateway</tool_call>"));
  EXPECT_EQ(whole(body).at("stop_reason"), "tool_use") << "also where the choice names the tool";
  EXPECT_EQ(add_up_message(stream(body)).at("stop_reason"), "tool_use");
  body["tool_choice"] = {{"type", "tool"}, {"name", "unknown"}};
  EXPECT_NE(refusal(body).find("unknown"), std::string::npos);
  // The form by the name that the client gave it.
  body = message_request();
  const OrderedJson bad{{"type", "json_schema"}, {"schema", {{"type", "thing"}}}};
  body["output_config"] = {{"format", bad}};
  EXPECT_EQ(refusal(body).rfind("output_config.format.schema: ", 0), 0U) << refusal(body);
  body.erase("output_config");
  body["output_format"] = bad;
  EXPECT_EQ(refusal(body).rfind("output_format.schema: ", 0), 0U) << refusal(body);
}

TEST_F(MessagesTest, EveryFieldWithEveryTypeIsNever500) {
  start();
  for (const char* field : {"messages", "system", "tools", "tool_choice", "thinking", "output_config",
                            "output_format", "stop_sequences", "max_tokens", "temperature", "top_k", "top_p",
                            "metadata", "stream", "chat_template_kwargs", "mcp_servers", "model"}) {
    for (const char* value :
         {"null", "true", "7", "-1", "1.5", "\"x\"", "[]", "[null]", "[[]]", "[{}]", "{}", R"({"type": 3})",
          R"({"type": "x"})", R"([{"type": "text"}])", R"([{"role": "user", "content": [null]}])"}) {
      OrderedJson body = message_request();
      body[field] = OrderedJson::parse(value);
      const int status = messages(body).status;
      EXPECT_TRUE(status == 200 || status == 400 || status == 404) << field << " " << value << " " << status;
    }
  }
}

TEST_F(MessagesTest, ErrorsHaveAnthropicsForm) {
  settings.api_keys = {"k"};
  start(false);
  const auto type_of = [](const RawResponse& response) {
    const OrderedJson json = OrderedJson::parse(response.body);
    EXPECT_EQ(json.at("type"), "error");
    EXPECT_FALSE(json.at("error").at("message").get<std::string>().empty());
    return json.at("error").at("type").get<std::string>();
  };
  const auto ask = [&](const OrderedJson& body, const char* headers) {
    return fetch(port(), post_text("/v1/messages", dump_json(body), headers));
  };
  RawResponse response = ask(message_request(), "");
  EXPECT_EQ(response.status, 401);
  EXPECT_EQ(type_of(response), "authentication_error");
  const char* key = "x-api-key: k\r\n";
  response = ask(message_request(), key);
  EXPECT_EQ(response.status, 529) << "still loading";
  EXPECT_EQ(type_of(response), "overloaded_error");
  EXPECT_TRUE(response.headers.contains("retry-after"));
  make_ready();
  OrderedJson body = message_request();
  body["model"] = "other";
  response = ask(body, key);
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(type_of(response), "not_found_error");
  response = fetch(port(), post_text("/v1/messages", "{not json", key));
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(type_of(response), "invalid_request_error");
  response = ask(message_request(), "x-api-key: k\r\nX-Request-Id: abc\r\n");
  EXPECT_EQ(response.headers.at("request-id"), "abc");
  engine->alive_now = false;
  response = ask(message_request(), key);
  EXPECT_EQ(response.status, 529);
  service->begin_drain();
  EXPECT_EQ(type_of(ask(message_request(), key)), "overloaded_error");
}

TEST_F(MessagesTest, AnEngineErrorMidStream) {
  start();
  FakeScript script = script_of("abc");
  script.finish = FinishReason::error;
  script.error = "no pages left";
  plays(script);
  const std::vector<SseEvent> events = stream(message_request());
  EXPECT_EQ(events.back().name, "error");
  EXPECT_EQ(
      events.back().data,
      OrderedJson::parse(R"({"type": "error", "error": {"type": "api_error", "message": "no pages left"}})"));
  EXPECT_EQ(messages(message_request()).status, 500);
}

}  // namespace
}  // namespace glint
