// Streams, byte for byte: order of chunks, one data chunk a step, usage, tool calls however the tokens are
// grouped.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "api_fixture.h"
#include "byte_tokenizer.h"

namespace glint {
namespace {

using Ms = std::chrono::milliseconds;

const OrderedJson& delta_of(const OrderedJson& chunk) {
  return chunk.at("choices").at(0).at("delta");
}

class StreamTest : public ApiTest {
 protected:
  /// Whole and streamed give the same; returns the stream's result.
  StreamResult both(const FakeScript& script, const OrderedJson& request) {
    engine->script = [script](const EngineRequest& /*request*/) { return script; };
    const StreamResult streamed = chat_stream(request);
    OrderedJson whole_request = request;
    whole_request.erase("stream");
    whole_request.erase("stream_options");
    const RawResponse response = chat(whole_request);
    EXPECT_EQ(response.status, 200) << response.body;
    compare(streamed, OrderedJson::parse(response.body).at("choices").at(0), script.finish);
    return streamed;
  }

  static void compare(const StreamResult& streamed, const OrderedJson& whole, FinishReason finish) {
    const OrderedJson& message = whole.at("message");
    const auto text = [&](const char* key) {
      return message.at(key).is_null() ? "" : message.at(key).get<std::string>();
    };
    EXPECT_EQ(streamed.reasoning, text("reasoning"));
    EXPECT_EQ(streamed.finish_reason, whole.at("finish_reason"));
    EXPECT_EQ(streamed.stop_reason, whole.at("stop_reason"));
    const OrderedJson calls = message.contains("tool_calls") ? message["tool_calls"] : OrderedJson::array();
    // The places where they differ by definition: trimmed content beside calls, a call cut in its arguments,
    // a key that comes twice, whose first value has been sent.
    if (calls.empty()) {
      EXPECT_EQ(streamed.content, text("content"));
    }
    ASSERT_EQ(streamed.calls.size(), calls.size());
    for (size_t i = 0; i < calls.size() && finish == FinishReason::stop; ++i) {
      EXPECT_EQ(streamed.calls[i].name, calls[i].at("function").at("name"));
      const std::string arguments = calls[i].at("function").at("arguments");
      if (streamed.calls[i].arguments.size() <= arguments.size()) {
        EXPECT_EQ(streamed.calls[i].arguments, arguments);
      } else {
        EXPECT_EQ(Json::parse(streamed.calls[i].arguments), Json::parse(arguments));
      }
    }
  }

  void check_case(const OrderedJson& one, const std::vector<std::string>& pieces,
                  const OrderedJson& request) {
    FakeScript script = script_of_pieces(pieces);
    if (one.contains("engine_finish") && one["engine_finish"] == "length") {
      script.finish = FinishReason::length;
      script.stop_token.reset();
    }
    const StreamResult result = both(script, request);
    const OrderedJson& expected = one.at("expected");
    EXPECT_TRUE(result.done);
    check_first_chunk(result, script);
    if (expected.contains("reasoning")) {
      EXPECT_EQ(result.reasoning,
                expected["reasoning"].is_null() ? "" : expected["reasoning"].get<std::string>());
    }
    if (expected.contains("content")) {
      EXPECT_EQ(result.content, expected["content"].is_null() ? "" : expected["content"].get<std::string>());
    }
    if (expected.contains("finish_reason")) {
      EXPECT_EQ(result.finish_reason, expected["finish_reason"]);
    }
    if (expected.contains("stop_reason")) {
      EXPECT_EQ(result.stop_reason, expected["stop_reason"]);
    }
    if (expected.contains("tool_calls")) check_calls(result, expected["tool_calls"]);
    for (const StreamResult::Call& call : result.calls) EXPECT_FALSE(call.id.empty());
    if (request.contains("include_reasoning")) {
      for (const OrderedJson& chunk : result.chunks) {
        for (const OrderedJson& choice : chunk.at("choices")) EXPECT_TRUE(choice.at("logprobs").is_null());
      }
    }
    EXPECT_EQ(result.content.find("<tool_call>"), std::string::npos);
  }

  static void check_first_chunk(const StreamResult& result, const FakeScript& script) {
    ASSERT_FALSE(result.chunks.empty());
    EXPECT_EQ(delta_of(result.chunks[0]), OrderedJson::parse(R"({"role":"assistant","content":""})"));
    size_t data_chunks = 0;
    for (const OrderedJson& chunk : result.chunks) {
      if (chunk.at("choices").empty()) continue;
      const OrderedJson& delta = delta_of(chunk);
      if (!delta.empty() && !delta.contains("role")) ++data_chunks;
    }
    EXPECT_LE(data_chunks, script.steps.size()) << "at most one data chunk a step";
  }

  static void check_calls(const StreamResult& result, const OrderedJson& expected) {
    ASSERT_EQ(result.calls.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(result.calls[i].name, expected[i].at("name"));
      if (!expected[i].contains("arguments")) continue;
      EXPECT_EQ(OrderedJson::parse(result.calls[i].arguments), expected[i]["arguments"]);
    }
  }
};

TEST_F(StreamTest, EveryStreamCase) {
  start();
  std::ifstream file(std::string(GLINT_TEST_DATA) + "/text/text-cases.jsonl");
  ASSERT_TRUE(file);
  int seen = 0;
  for (std::string line; std::getline(file, line);) {
    const OrderedJson one = OrderedJson::parse(line);
    if (one.at("kind") != "stream" || one.contains("endpoint")) continue;
    ++seen;
    SCOPED_TRACE(one.at("id").get<std::string>());
    OrderedJson request = user_request();
    request.update(one.at("request"));
    const auto pieces = one.at("chunks").get<std::vector<std::string>>();
    check_case(one, pieces, request);
    if (!one.contains("all_two_piece_splits")) continue;
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    for (size_t cut = 1; cut < text.size(); ++cut) {
      check_case(one, {text.substr(0, cut), text.substr(cut)}, request);
    }
  }
  EXPECT_EQ(seen, 21);
}

/// The tokens of a case: one whose tool tags were spelled out has only </think> as a token.
FakeScript script_of_case(const OrderedJson& one) {
  const auto text = one.at("raw_output").get<std::string>();
  FakeScript script;
  if (!one.contains("literal_tags")) {
    script = script_of(text);
  } else {
    constexpr std::string_view kClose = "</think>";
    const size_t close = text.find(kClose);
    for (size_t at = 0; at < text.size();) {
      script.steps.push_back(at == close ? ids_of(kClose)
                                         : std::vector<TokenId>{static_cast<unsigned char>(text[at])});
      at += at == close ? kClose.size() : 1;
    }
    script.stop_token = kUser;
  }
  if (one.at("engine_finish") == "length") {
    script.finish = FinishReason::length;
    script.stop_token.reset();
  }
  return script;
}

/// Every tool and reasoning case over HTTP, whole and streamed: what the fields of the answer are.
TEST_F(StreamTest, EveryAnswerCase) {
  start();
  std::ifstream file(std::string(GLINT_TEST_DATA) + "/text/text-cases.jsonl");
  int seen = 0;
  for (std::string line; std::getline(file, line);) {
    const OrderedJson one = OrderedJson::parse(line);
    if (one.at("kind") != "tool" && one.at("kind") != "reasoning") continue;
    SCOPED_TRACE(one.at("id").get<std::string>());
    OrderedJson request = user_request();
    request.update(one.at("request"));
    // A budget is the engine's (budget_test.cc), a demanded call a grammar's (structured_test.cc).
    if (request.contains("thinking_token_budget")) continue;
    if (request.value("tool_choice", OrderedJson()).is_object()) request["tool_choice"] = "auto";
    ++seen;
    both(script_of_case(one), request);
    const OrderedJson answer = OrderedJson::parse(chat(request).body);
    const OrderedJson& choice = answer.at("choices").at(0);
    const OrderedJson& message = choice.at("message");
    const OrderedJson& expected = one.at("expected");
    EXPECT_EQ(message.at("reasoning"), expected.at("reasoning"));
    // A demanded call has another content and finish_reason than one of the model's own accord.
    if (!one["request"].value("tool_choice", OrderedJson()).is_object()) {
      EXPECT_EQ(message.at("content"), expected.at("content"));
      EXPECT_EQ(choice.at("finish_reason"), expected.at("finish_reason"));
    }
    const OrderedJson& calls = expected.at("tool_calls");
    EXPECT_EQ(message.contains("tool_calls"), !calls.empty()) << "left out if there are none";
    ASSERT_EQ(message.value("tool_calls", OrderedJson::array()).size(), calls.size());
    std::set<std::string> ids;
    for (size_t i = 0; i < calls.size(); ++i) {
      const OrderedJson& call = message["tool_calls"][i];
      EXPECT_EQ(call.at("type"), "function");
      EXPECT_TRUE(ids.insert(call.at("id")).second) << "an id of its own";
      EXPECT_EQ(call.at("function").at("name"), calls[i].at("name"));
      const std::string arguments = call.at("function").at("arguments");
      if (calls[i].contains("arguments")) {
        EXPECT_EQ(Json(OrderedJson::parse(arguments)), Json(calls[i]["arguments"]));
      }
      if (one.contains("arguments_text")) {
        EXPECT_EQ(arguments, one["arguments_text"]);
      }
    }
    if (one.contains("usage")) {
      EXPECT_GT(answer.at("usage").at("completion_tokens_details").at("reasoning_tokens"), 0);
      EXPECT_GT(answer.at("usage").at("completion_tokens"), 0);
    }
  }
  EXPECT_EQ(seen, 70);
}

TEST_F(StreamTest, ExactBytes) {
  start();
  engine->script = [](const EngineRequest& /*request*/) {
    FakeScript script;
    script.steps = {ids_of("a\"\n"), ids_of("</think>"), ids_of("\xC3"), ids_of("\xA9!")};
    script.stop_token = kUser;
    return script;
  };
  OrderedJson body = user_request();
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const RawResponse response =
      fetch(port(), post_text("/v1/chat/completions", dump_json(body), "X-Request-Id: r1\r\n"));
  std::string text = response.body;
  const auto created = text.find("\"created\":");
  const std::string stamp = text.substr(created + 10, text.find(',', created) - created - 10);
  std::string expected;
  const std::string begin =
      "data: {\"id\":\"chatcmpl-r1\",\"object\":\"chat.completion.chunk\",\"created\":" + stamp +
      ",\"model\":\"glm-5.3\",\"choices\":[";
  expected +=
      begin +
      R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})"
      "\n\n";
  expected += begin + R"({"index":0,"delta":{"reasoning":"a\""},"logprobs":null,"finish_reason":null}]})"
                      "\n\n";
  expected += begin + R"({"index":0,"delta":{"content":"é!"},"logprobs":null,"finish_reason":null}]})"
                      "\n\n";
  expected += begin +
              R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":154827}]})"
              "\n\n";
  expected += begin + R"(],"usage":{"prompt_tokens":)" + std::to_string(engine->submitted()[0].prompt.size());
  expected += R"(,"total_tokens":)" + std::to_string(engine->submitted()[0].prompt.size() + 8);
  expected += R"(,"completion_tokens":8,"completion_tokens_details":{"reasoning_tokens":3}}})"
              "\n\n";
  expected += "data: [DONE]\n\n";
  EXPECT_EQ(text, expected);
  // Whole events: no chunk of the transfer coding ends inside one.
  for (const std::string& chunk : response.chunks) {
    EXPECT_EQ(chunk.substr(chunk.size() - 2), "\n\n");
  }
}

TEST_F(StreamTest, NothingBeforeTheFirstTokenButPings) {
  automatic_steps = false;
  http.ping_interval = Ms(40);
  start();
  engine->script = [](const EngineRequest& /*request*/) { return script_of_pieces({"", "t", "u"}); };
  OrderedJson body = user_request();
  body["stream"] = true;
  RawClient client(port());
  ASSERT_TRUE(client.send(post_text("/v1/chat/completions", dump_json(body))));
  EXPECT_NE(client.read_until("\r\n\r\n").find("200 OK"), std::string::npos);
  EXPECT_EQ(client.read_until("\n\n\r\n"), "8\r\n: ping\n\n\r\n");
  engine->step();  // a step without a token for this request
  EXPECT_EQ(client.read_until("\n\n\r\n"), "8\r\n: ping\n\n\r\n");
  engine->step();
  const std::string first = client.read_until("\n\n\r\n");
  EXPECT_NE(first.find("\"role\":\"assistant\""), std::string::npos) << first;
  EXPECT_NE(first.find("\"reasoning\":\"t\""), std::string::npos) << first;
}

TEST_F(StreamTest, OneDataChunkAStep) {
  start();
  const std::vector<std::string> pieces = {"ab", "cd</think>ef", "gh", "", "ij"};
  engine->script = [&](const EngineRequest& /*request*/) { return script_of_pieces(pieces); };
  const StreamResult result = chat_stream(user_request());
  std::vector<std::string> deltas;
  for (const OrderedJson& chunk : result.chunks) deltas.push_back(dump_json(delta_of(chunk)));
  const std::vector<std::string> expected = {R"({"role":"assistant","content":""})",
                                             R"({"reasoning":"ab"})",
                                             R"({"reasoning":"cd","content":"ef"})",
                                             R"({"content":"gh"})",
                                             R"({"content":"ij"})",
                                             "{}"};
  EXPECT_EQ(deltas, expected);
}

TEST_F(StreamTest, ContinuousUsage) {
  start();
  OrderedJson body = user_request();
  body["stream_options"] = {{"include_usage", true}, {"continuous_usage_stats", true}};
  const StreamResult result = chat_stream(body);
  const auto prompt = static_cast<int64_t>(engine->submitted()[0].prompt.size());
  int64_t last = -1;
  for (const OrderedJson& chunk : result.chunks) {
    const OrderedJson& usage = chunk.at("usage");
    EXPECT_EQ(usage.at("prompt_tokens"), prompt);
    const auto completion = usage.at("completion_tokens").get<int64_t>();
    if (last < 0) {
      EXPECT_EQ(completion, 0);
    }
    EXPECT_GE(completion, last);
    last = completion;
    EXPECT_EQ(usage.at("total_tokens"), prompt + completion);
  }
  EXPECT_EQ(last, 15);
  EXPECT_TRUE(result.chunks.back().at("choices").empty());
  // Without include_usage no chunk has a usage.
  for (const OrderedJson& chunk : chat_stream(user_request()).chunks) EXPECT_FALSE(chunk.contains("usage"));
}

TEST_F(StreamTest, SeveralChoices) {
  start();
  std::atomic<int> number{0};
  engine->script = [&](const EngineRequest& /*request*/) {
    return script_of("r</think>" + std::string(static_cast<size_t>(++number) * 2, 'x'));
  };
  OrderedJson body = user_request();
  body.update({{"n", 3}, {"stream", true}, {"stream_options", {{"include_usage", true}}}});
  const RawResponse response = post("/v1/chat/completions", body);
  std::vector<std::string> contents(3);
  std::vector<std::string> seen(3);
  OrderedJson usage;
  for (const std::string& event : sse_events(response.body)) {
    if (event == "[DONE]") continue;
    const OrderedJson chunk = OrderedJson::parse(event);
    if (chunk["choices"].empty()) {
      usage = chunk["usage"];
      continue;
    }
    ASSERT_EQ(chunk["choices"].size(), 1U);
    const auto index = chunk["choices"][0]["index"].get<size_t>();
    const OrderedJson& delta = delta_of(chunk);
    EXPECT_EQ(delta.contains("role"), seen[index].empty()) << "each choice begins with its role";
    seen[index] += "s";
    if (delta.contains("content")) contents[index] += delta["content"].get<std::string>();
  }
  EXPECT_EQ(contents[0], "xx");
  EXPECT_EQ(contents[1], "xxxx");
  EXPECT_EQ(contents[2], "xxxxxx");
  EXPECT_EQ(usage.at("completion_tokens"), (2 + 2 + 1) + (2 + 4 + 1) + (2 + 6 + 1));
  EXPECT_EQ(usage.at("prompt_tokens"), engine->submitted()[0].prompt.size());
}

TEST_F(StreamTest, ReasoningFieldNames) {
  settings.reasoning_field = ReasoningField::both;
  start();
  const StreamResult result = chat_stream(user_request());
  EXPECT_EQ(delta_of(result.chunks[1]), OrderedJson::parse(R"({"reasoning":"t","reasoning_content":"t"})"));
  const OrderedJson message = OrderedJson::parse(chat(user_request()).body)["choices"][0]["message"];
  EXPECT_EQ(message.at("reasoning"), "thought");
  EXPECT_EQ(message.at("reasoning_content"), "thought");
}

TEST_F(StreamTest, OnlySglangsReasoningField) {
  settings.reasoning_field = ReasoningField::reasoning_content;
  start();
  const OrderedJson message = OrderedJson::parse(chat(user_request()).body)["choices"][0]["message"];
  EXPECT_FALSE(message.contains("reasoning"));
  EXPECT_EQ(message.at("reasoning_content"), "thought");
}

TEST_F(StreamTest, StopStringsAndLength) {
  start();
  FakeScript script = script_of("r</think>one STOP two");
  OrderedJson body = user_request();
  body["stop"] = {"never", "STOP"};
  StreamResult result = both(script, body);
  EXPECT_EQ(result.content, "one ");
  EXPECT_EQ(result.stop_reason, "STOP");
  body["include_stop_str_in_output"] = true;
  EXPECT_EQ(both(script, body).content, "one STOP");
  body = user_request();
  body["max_tokens"] = 4;
  result = both(script, body);
  EXPECT_EQ(result.content, "on");
  EXPECT_EQ(result.finish_reason, "length");
  EXPECT_TRUE(result.stop_reason.is_null());
  result = both(script_of("only thoughts"), user_request());
  EXPECT_EQ(result.content, "");
  EXPECT_EQ(result.finish_reason, "stop");
}

TEST_F(StreamTest, HttpOnePointZero) {
  start();
  OrderedJson body = user_request();
  body["stream"] = true;
  const std::string text = dump_json(body);
  const RawResponse response = fetch(
      port(), cat("POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: ",
                  text.size(), "\r\n\r\n", text));
  EXPECT_EQ(response.headers.count("transfer-encoding"), 0U);
  EXPECT_EQ(read_chat_stream(response.body).content, "answer");
}

TEST_F(StreamTest, AnEngineErrorMidStream) {
  start();
  FakeScript script = script_of("abc");
  script.finish = FinishReason::error;
  script.error = "no \"pages\" left";
  engine->script = [script](const EngineRequest& /*request*/) { return script; };
  const StreamResult result = chat_stream(user_request());
  EXPECT_EQ(result.error, "no \"pages\" left");
  EXPECT_TRUE(result.done);
  EXPECT_EQ(chat(user_request()).status, 500);
}

}  // namespace
}  // namespace glint
