// What answers say about their tokens, and the fields that decide it, against a scripted engine.
#include <gtest/gtest.h>

#include "api_fixture.h"
#include "byte_tokenizer.h"

namespace glint {
namespace {

/// What the scripted engine reports of a token.
OrderedJson entry(std::string_view text, double logprob) {
  OrderedJson bytes = OrderedJson::array();
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", text}, {"logprob", logprob}, {"bytes", bytes}};
}

OrderedJson body_of(const RawResponse& response) {
  EXPECT_EQ(response.status, 200) << response.body;
  return OrderedJson::parse(response.body);
}

class SamplingApi : public ApiTest {
 protected:
  OrderedJson completion(OrderedJson body) const { return body_of(post("/v1/completions", body)); }
  std::vector<OrderedJson> completion_chunks(OrderedJson body) const {
    body["stream"] = true;
    const RawResponse response = post("/v1/completions", body);
    EXPECT_EQ(response.status, 200) << response.body;
    std::vector<OrderedJson> chunks;
    for (const std::string& event : sse_events(response.body)) {
      if (event != "[DONE]") chunks.push_back(OrderedJson::parse(event));
    }
    return chunks;
  }
  void refuses(std::string_view path, OrderedJson body, std::string_view param, std::string_view part) const {
    const RawResponse response = post(path, body);
    EXPECT_EQ(response.status, 400) << response.body;
    const OrderedJson error = OrderedJson::parse(response.body).at("error");
    EXPECT_EQ(error.at("param"), param) << response.body;
    EXPECT_NE(error.at("message").get<std::string>().find(part), std::string::npos) << response.body;
  }
};

TEST_F(SamplingApi, ChatLogprobsNameEveryToken) {
  start();
  engine->script = [](const EngineRequest& /*request*/) {
    FakeScript script = script_of("a</think>\xC3\xA9");
    return script;
  };
  OrderedJson body = user_request();
  body.update({{"logprobs", true}, {"top_logprobs", 2}});
  const OrderedJson whole = body_of(chat(body));
  const OrderedJson& content = whole.at("choices").at(0).at("logprobs").at("content");
  // Reasoning, tags and the ending token too; usage counts the same tokens.
  ASSERT_EQ(content.size(), 5U);
  EXPECT_EQ(content.size(), whole.at("usage").at("completion_tokens"));
  OrderedJson first = entry("a", -0.25);
  first["top_logprobs"] = OrderedJson::array({entry("a", -0.25), entry("b", -0.5)});
  EXPECT_EQ(content[0], first);
  EXPECT_EQ(content[1].at("token"), "</think>");
  EXPECT_EQ(content[2].at("token"), "\xEF\xBF\xBD") << "half a character";
  EXPECT_EQ(content[2].at("bytes"), OrderedJson::array({0xC3}));
  EXPECT_EQ(content[3].at("bytes"), OrderedJson::array({0xA9}));
  EXPECT_EQ(content[4].at("token"), "<|user|>");
  // The stream brings the same, at most one data chunk a step.
  const StreamResult stream = chat_stream(body);
  OrderedJson streamed = OrderedJson::array();
  for (const OrderedJson& chunk : stream.chunks) {
    const OrderedJson& logprobs = chunk.at("choices").at(0).at("logprobs");
    if (logprobs.is_null()) continue;
    for (const OrderedJson& one : logprobs.at("content")) streamed.push_back(one);
  }
  EXPECT_EQ(streamed, content);
  EXPECT_EQ(stream.chunks.size(), 1 + 4 + 1) << "role, a chunk for each of 4 steps, finish";
  body["top_logprobs"] = 0;
  EXPECT_EQ(body_of(chat(body)).at("choices")[0].at("logprobs").at("content")[0].at("top_logprobs"),
            OrderedJson::array());
  body.update({{"return_tokens_as_token_ids", true}});
  EXPECT_EQ(body_of(chat(body)).at("choices")[0].at("logprobs").at("content")[0].at("token"), "token_id:97");
  body = user_request();
  EXPECT_TRUE(body_of(chat(body)).at("choices")[0].at("logprobs").is_null());
}

TEST_F(SamplingApi, SeveralTokensOfAStepComeInOneChunk) {
  start();
  engine->script = [](const EngineRequest& /*request*/) { return script_of_pieces({"ab</think>c", "def"}); };
  OrderedJson body = user_request();
  body.update({{"logprobs", true}});
  const StreamResult stream = chat_stream(body);
  ASSERT_EQ(stream.chunks.size(), 4U);
  EXPECT_EQ(stream.chunks[1].at("choices")[0].at("logprobs").at("content").size(), 4U);
  EXPECT_EQ(stream.chunks[2].at("choices")[0].at("logprobs").at("content").size(), 4U)
      << "the ending token too";
}

TEST_F(SamplingApi, CompletionLogprobsHaveOffsetsOfCharacters) {
  start();
  engine->script = [](const EngineRequest& /*request*/) {
    FakeScript script = script_of("x\xC3\xA9y");
    script.finish = FinishReason::length;
    return script;
  };
  const OrderedJson choice = completion({{"prompt", "ab"}, {"logprobs", 1}}).at("choices").at(0);
  EXPECT_EQ(choice.at("text"), "x\xC3\xA9y");
  const OrderedJson& logprobs = choice.at("logprobs");
  EXPECT_EQ(logprobs.at("text_offset"), OrderedJson::array({0, 1, 1, 2}));
  EXPECT_EQ(logprobs.at("token_logprobs"), OrderedJson::array({-0.25, -0.25, -0.25, -0.25}));
  EXPECT_EQ(logprobs.at("tokens").at(0), "x");
  EXPECT_EQ(logprobs.at("tokens").at(3), "y");
  EXPECT_EQ(logprobs.at("top_logprobs").at(0), (OrderedJson{{"x", -0.25}}));
  const OrderedJson three = completion({{"prompt", "ab"}, {"logprobs", 3}}).at("choices")[0].at("logprobs");
  EXPECT_EQ(three.at("top_logprobs")[0], (OrderedJson{{"x", -0.25}, {"y", -0.5}, {"z", -0.75}}));
  const OrderedJson none = completion({{"prompt", "ab"}, {"logprobs", 0}}).at("choices")[0].at("logprobs");
  EXPECT_EQ(none.at("top_logprobs")[0], (OrderedJson{{"x", -0.25}}));
  EXPECT_TRUE(completion({{"prompt", "ab"}}).at("choices")[0].at("logprobs").is_null());
}

/// The scripted engine gives a named id half of its own number below zero.
TEST_F(SamplingApi, NamedIdsTakeThePlaceOfTheMostLikely) {
  start();
  engine->script = [](const EngineRequest& /*request*/) { return script_of("</think>x"); };
  OrderedJson body = user_request();
  body.update({{"logprobs", true}, {"top_logprobs", 1}, {"logprob_token_ids", {66, 65, 66}}});
  const OrderedJson wanted = OrderedJson::array({entry("B", -33), entry("A", -32.5)});
  const OrderedJson content = body_of(chat(body)).at("choices").at(0).at("logprobs").at("content");
  ASSERT_EQ(content.size(), 3U);
  for (const OrderedJson& token : content) EXPECT_EQ(token.at("top_logprobs"), wanted);
  EXPECT_EQ(engine->submitted().back().sampling.logprob_token_ids, (std::vector<TokenId>{66, 65}));
  OrderedJson streamed = OrderedJson::array();
  for (const OrderedJson& chunk : chat_stream(body).chunks) {
    const OrderedJson& logprobs = chunk.at("choices").at(0).at("logprobs");
    for (size_t i = 0; !logprobs.is_null() && i < logprobs.at("content").size(); ++i)
      streamed.push_back(logprobs["content"][i]);
  }
  EXPECT_EQ(streamed, content);
  body["logprob_token_ids"] = OrderedJson::array();
  EXPECT_EQ(body_of(chat(body)).at("choices").at(0).at("logprobs").at("content")[1].at("top_logprobs"),
            OrderedJson::array({entry("x", -0.25)}))
      << "an empty list asks for nothing";

  // The prompt keeps its most likely ids.
  OrderedJson text{{"prompt", "Hi"}, {"logprobs", 1}, {"echo", true}, {"max_tokens", 2}};
  text["logprob_token_ids"] = {65};
  const OrderedJson logprobs = completion(text).at("choices").at(0).at("logprobs");
  EXPECT_EQ(logprobs.at("top_logprobs")[1], (OrderedJson{{"i", -0.25}}));
  EXPECT_EQ(logprobs.at("top_logprobs")[3], (OrderedJson{{"x", -0.25}, {"A", -32.5}}));

  for (const char* path : {"/v1/chat/completions", "/v1/completions"}) {
    OrderedJson request = user_request();
    request["prompt"] = "Hi";
    request["logprob_token_ids"] = {65};
    refuses(path, request, "logprob_token_ids", "needs logprobs");
    request["logprobs"] = path == std::string_view("/v1/completions") ? OrderedJson(0) : OrderedJson(true);
    request["logprob_token_ids"] = {65, 154880};
    refuses(path, request, "logprob_token_ids", "154880");
    request["logprob_token_ids"] = std::vector<int>(129, 1);
    refuses(path, request, "logprob_token_ids", "at most 128");
    request["logprob_token_ids"] = {"A"};
    refuses(path, request, "body.logprob_token_ids", "logprob_token_ids");
  }
  text["max_tokens"] = 0;
  refuses("/v1/completions", text, "logprob_token_ids", "max_tokens");
}

TEST_F(SamplingApi, EchoStandsInFront) {
  start();
  engine->script = [](const EngineRequest& /*request*/) { return script_of("xy"); };
  OrderedJson body = {{"prompt", OrderedJson::array({"ab", "q"})}, {"echo", true}};
  OrderedJson answer = completion(body);
  EXPECT_EQ(answer.at("choices")[0].at("text"), "abxy");
  EXPECT_EQ(answer.at("choices")[1].at("text"), "qxy");
  EXPECT_TRUE(answer.at("choices")[0].at("logprobs").is_null());
  EXPECT_EQ(answer.at("usage").at("prompt_tokens"), 3);
  EXPECT_EQ(completion({{"prompt", {97, 98}}, {"echo", true}}).at("choices")[0].at("text"), "abxy");
  body = {{"prompt", "ab"}, {"echo", true}, {"logprobs", 1}};
  const OrderedJson logprobs = completion(body).at("choices")[0].at("logprobs");
  EXPECT_EQ(logprobs.at("tokens"), OrderedJson::array({"a", "b", "x", "y", "<|user|>"}));
  EXPECT_EQ(logprobs.at("text_offset"), OrderedJson::array({0, 1, 2, 3, 4}));
  EXPECT_EQ(logprobs.at("token_logprobs"), OrderedJson::array({nullptr, -0.25, -0.25, -0.25, -0.25}));
  EXPECT_TRUE(logprobs.at("top_logprobs")[0].is_null());
  EXPECT_EQ(logprobs.at("top_logprobs")[1], (OrderedJson{{"b", -0.25}}));
  // Streamed: the echo has a chunk of its own.
  const std::vector<OrderedJson> chunks = completion_chunks(body);
  ASSERT_EQ(chunks.size(), 1 + 2 + 1U) << "echo, two steps, finish";
  EXPECT_EQ(chunks[0].at("choices")[0].at("text"), "ab");
  OrderedJson streamed;
  for (const OrderedJson& chunk : chunks) {
    const OrderedJson& part = chunk.at("choices")[0].at("logprobs");
    if (part.is_null()) continue;
    for (const auto& [name, list] : part.items()) {
      for (const OrderedJson& value : list) streamed[name].push_back(value);
    }
  }
  EXPECT_EQ(streamed, logprobs);
}

TEST_F(SamplingApi, MaxTokensZeroWithEchoScoresThePrompt) {
  start();
  const OrderedJson answer =
      completion({{"prompt", "abc"}, {"echo", true}, {"max_tokens", 0}, {"logprobs", 0}});
  const OrderedJson& choice = answer.at("choices")[0];
  EXPECT_EQ(choice.at("text"), "abc");
  EXPECT_EQ(choice.at("finish_reason"), "length");
  EXPECT_EQ(choice.at("logprobs").at("tokens"), OrderedJson::array({"a", "b", "c"}));
  EXPECT_EQ(answer.at("usage").at("completion_tokens"), 0);
  refuses("/v1/completions", {{"prompt", "abc"}, {"max_tokens", 0}}, "max_tokens", "at least 1");
}

TEST_F(SamplingApi, EchoOfAChatIsTheLastMessageOfTheSameRole) {
  start();
  OrderedJson body = {{"messages", OrderedJson::array({{{"role", "user"}, {"content", "Hi"}},
                                                       {{"role", "assistant"}, {"content", "Begin "}}})},
                      {"echo", true}};
  EXPECT_EQ(body_of(chat(body)).at("choices")[0].at("message").at("content"), "Begin answer");
  const StreamResult stream = chat_stream(body);
  EXPECT_EQ(stream.content, "Begin answer");
  EXPECT_EQ(stream.chunks[1].at("choices")[0].at("delta"), (OrderedJson{{"content", "Begin "}}));
  OrderedJson user = user_request();
  user["echo"] = true;
  EXPECT_EQ(body_of(chat(user)).at("choices")[0].at("message").at("content"), "answer");
}

TEST_F(SamplingApi, PromptLogprobs) {
  start();
  const OrderedJson answer = completion({{"prompt", "ab"}, {"prompt_logprobs", 1}});
  const OrderedJson expected =
      OrderedJson::array({nullptr, {{"98", {{"logprob", -0.25}, {"rank", 1}, {"decoded_token", "b"}}}}});
  EXPECT_EQ(answer.at("choices")[0].at("prompt_logprobs"), expected);
  EXPECT_TRUE(answer.at("choices")[0].at("logprobs").is_null());
  OrderedJson body = user_request();
  body["prompt_logprobs"] = 2;
  const OrderedJson chatted = body_of(chat(body));
  EXPECT_EQ(chatted.at("prompt_logprobs").size(), chatted.at("usage").at("prompt_tokens"));
  EXPECT_EQ(chatted.at("prompt_logprobs").back().size(), 2U);
  // The choices of a prompt share them.
  const OrderedJson two =
      completion({{"prompt", "ab"}, {"prompt_logprobs", 1}, {"n", 2}, {"temperature", 1}});
  EXPECT_EQ(two.at("choices")[1].at("prompt_logprobs"), expected);
  EXPECT_FALSE(engine->submitted().back().sampling.prompt_logprobs.has_value());
}

TEST_F(SamplingApi, RangesAndTexts) {
  start();
  const std::string path = "/v1/chat/completions";
  const auto with = [](const char* name, OrderedJson value) {
    OrderedJson body = user_request();
    body[name] = std::move(value);
    return body;
  };
  refuses(path, with("presence_penalty", 2.1), "presence_penalty", "[-2, 2]");
  refuses(path, with("frequency_penalty", -2.1), "frequency_penalty", "[-2, 2]");
  refuses(path, with("repetition_penalty", 0), "repetition_penalty", "above 0");
  refuses(path, with("logit_bias", {{"x", 1}}), "logit_bias", "'x' is no token id");
  refuses(path, with("logit_bias", {{"154880", 1}}), "logit_bias", "154880 ids");
  refuses(path, with("logit_bias", {{"-1", 1}}), "logit_bias", "-1");
  refuses(path, with("logit_bias", {{"1", "2"}}), "logit_bias", "must be a number");
  refuses(path, with("logit_bias", OrderedJson::array({1})), "body.logit_bias", "expected an object");
  refuses(path, with("allowed_token_ids", OrderedJson::array()), "allowed_token_ids", "must not be empty");
  refuses(path, with("allowed_token_ids", {154880}), "allowed_token_ids", "the vocabulary has 154880");
  refuses(path, with("bad_words", {""}), "bad_words", "empty");
  refuses(path, with("bad_words", {1}), "body.bad_words", "list of strings");
  refuses(path, with("thinking_token_budget", -2), "thinking_token_budget", "-1 (no limit)");
  refuses(path, with("priority", 3'000'000'000), "priority", "32 bits");
  refuses(path, with("top_logprobs", 2), "top_logprobs", "logprobs to be true");
  refuses(path, with("prompt_logprobs", 21), "prompt_logprobs", "greater than max allowed: 20");
  refuses(path, with("prompt_logprobs", -1), "prompt_logprobs", "-1");
  refuses(path, with("prompt_logprobs", -2), "prompt_logprobs", "at least 0");
  OrderedJson body = with("prompt_logprobs", 1);
  body["stream"] = true;
  refuses(path, body, "prompt_logprobs", "stream is true");
  body = with("logprobs", true);
  body["top_logprobs"] = 21;
  refuses(path, body, "logprobs", "Requested sample logprobs of 21");
  body["top_logprobs"] = -1;
  refuses(path, body, "logprobs", "whole vocabulary");
  body["top_logprobs"] = -2;
  refuses(path, body, "top_logprobs", "at least 0");
  refuses("/v1/completions", {{"prompt", "a"}, {"logprobs", 21}}, "logprobs",
          "Requested sample logprobs of 21");
  refuses("/v1/completions", {{"prompt", "a"}, {"suffix", "b"}}, "suffix", "not currently supported");
  refuses("/v1/completions", {{"prompt", "a"}, {"best_of", 3}}, "best_of", "use n");
}

TEST_F(SamplingApi, MaxLogprobsIsASetting) {
  settings.max_logprobs = -1;
  start();
  OrderedJson body = user_request();
  body.update({{"logprobs", true}, {"top_logprobs", -1}});
  EXPECT_EQ(body_of(chat(body)).at("choices")[0].at("logprobs").at("content")[0].at("top_logprobs").size(),
            50U);
  EXPECT_EQ(engine->submitted().back().sampling.logprobs, kAllLogprobs);
}

/// --max-logprobs -1 lets a request ask for the whole vocabulary; what the server holds of it is bounded.
TEST_F(SamplingApi, LogprobsHeldAreBounded) {
  settings.max_logprobs = -1;
  start();
  engine->limits_now.max_model_len = 100'000;
  const int64_t most = kLogprobsHeldMax / (1 + 154880);
  OrderedJson body = user_request();
  body.update({{"logprobs", true}, {"top_logprobs", -1}, {"max_tokens", most}});
  EXPECT_EQ(chat(body).status, 200);
  EXPECT_EQ(engine->submitted().back().sampling.max_tokens, most);
  body["max_tokens"] = most + 1;
  refuses("/v1/chat/completions", body, "top_logprobs", cat("at most ", most, " tokens"));
  body["stream"] = true;  // one token at a time
  EXPECT_EQ(chat(body).status, 200);
  body["stream_interval"] = most + 1;
  refuses("/v1/chat/completions", body, "stream_interval", cat("at most ", most, " is possible"));
  body.erase("stream");
  body.erase("max_tokens");
  EXPECT_EQ(chat(body).status, 200) << "no length was asked for: as many as fit";
  EXPECT_EQ(engine->submitted().back().sampling.max_tokens, most);
  body.update({{"n", 128}, {"temperature", 1}});
  refuses("/v1/chat/completions", body, "top_logprobs", "128 choices at most 0 tokens");
  // The usual twenty are no reason to refuse, whatever the context.
  body = user_request();
  body.update({{"logprobs", true}, {"top_logprobs", 20}});
  EXPECT_EQ(chat(body).status, 200);
  EXPECT_EQ(engine->submitted().back().sampling.max_tokens, kLogprobsHeldMax / 21);
  // Named ids count in place of the most likely ones.
  body["logprob_token_ids"] = OrderedJson::array({65, 66, 67});
  EXPECT_EQ(chat(body).status, 200);
  EXPECT_EQ(engine->submitted().back().sampling.max_tokens,
            std::min<int64_t>(kLogprobsHeldMax / 4, 100'000) -
                static_cast<int64_t>(engine->submitted().back().prompt.size()));
  refuses("/v1/completions", {{"prompt", std::string(300, 'x')}, {"prompt_logprobs", -1}}, "prompt_logprobs",
          cat("at most ", most, " tokens"));
}

TEST_F(SamplingApi, CachedTokensAreShownIfWanted) {
  settings.prompt_tokens_details = true;
  settings.force_include_usage = true;
  start();
  engine->cached_tokens_now = 64;
  OrderedJson body = user_request();
  body.update({{"n", 2}, {"temperature", 1}});
  EXPECT_EQ(body_of(chat(body)).at("usage").at("prompt_tokens_details"),
            (OrderedJson{{"cached_tokens", 64}}));
  const StreamResult stream = chat_stream(user_request());
  EXPECT_EQ(stream.usage.at("prompt_tokens_details").at("cached_tokens"), 64) << "and forced";
}

TEST_F(SamplingApi, ChoicesWaitForTheFirstToComputeALongPrompt) {
  automatic_steps = false;
  start();
  engine->limits_now.shared_prefix_tokens = 64;
  OrderedJson body = {{"prompt", std::string(65, 'p')}, {"n", 3}, {"seed", 5}, {"temperature", 1}};
  RawClient client(port());
  ASSERT_TRUE(client.send(post_text("/v1/completions", dump_json(body))));
  ASSERT_TRUE(eventually([&] { return engine->running() == 1; }));
  engine->step();
  ASSERT_TRUE(eventually([&] { return engine->running() == 3; }));
  engine->run(std::chrono::microseconds(200));
  const auto response = client.read();
  ASSERT_TRUE(response);
  const OrderedJson answer = body_of(*response);
  ASSERT_EQ(answer.at("choices").size(), 3U);
  for (const OrderedJson& choice : answer.at("choices"))
    EXPECT_EQ(choice.at("text"), "thought</think>answer");
  const auto submitted = engine->submitted();
  ASSERT_EQ(submitted.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(submitted[i].prompt.size(), 65U);
    EXPECT_EQ(submitted[i].sampling.seed, 5 + i);
  }
}

TEST_F(SamplingApi, AShortPromptsChoicesStartTogether) {
  automatic_steps = false;
  start();
  engine->limits_now.shared_prefix_tokens = 64;
  RawClient client(port());
  ASSERT_TRUE(client.send(
      post_text("/v1/completions",
                dump_json(OrderedJson{{"prompt", std::string(64, 'p')}, {"n", 3}, {"temperature", 1}}))));
  EXPECT_TRUE(eventually([&] { return engine->running() == 3; }));
}

TEST_F(SamplingApi, TheBudgetNeedsAReasoningToEnd) {
  start();
  completion({{"prompt", "<|assistant|><think>a"}, {"thinking_token_budget", 3}});
  EXPECT_EQ(engine->submitted().back().sampling.reasoning.budget, 3);
  completion({{"prompt", "<|assistant|><think>a</think>"}, {"thinking_token_budget", 3}});
  EXPECT_EQ(engine->submitted().back().sampling.reasoning.budget, -1);
  completion({{"prompt", "<think><|user|>a"}, {"thinking_token_budget", 3}});
  EXPECT_EQ(engine->submitted().back().sampling.reasoning.budget, -1);
}

}  // namespace
}  // namespace glint
