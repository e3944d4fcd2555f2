// Fields that say what an answer tells beside its text, request ids, and a table of every field of the two
// OpenAI routes.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "api_fixture.h"
#include "byte_tokenizer.h"

namespace glint {
namespace {

class OutputFields : public ApiTest {
 protected:
  [[nodiscard]] OrderedJson answer(const char* path, const OrderedJson& body) const {
    const RawResponse response = post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return OrderedJson::parse(response.body);
  }
  [[nodiscard]] static OrderedJson with(const char* key, const OrderedJson& value) {
    OrderedJson body = user_request();
    body[key] = value;
    return body;
  }
};

OrderedJson ids_json(std::string_view text) {
  return OrderedJson(ids_of(text));
}

TEST_F(OutputFields, TokenIdsAndPromptText) {
  start();
  engine->script = [](const EngineRequest& /*request*/) { return script_of("r</think>ab"); };
  OrderedJson body = with("return_token_ids", true);
  body["return_prompt_text"] = true;
  const OrderedJson whole = answer("/v1/chat/completions", body);
  OrderedJson generated = ids_json("r</think>ab");
  generated.push_back(kUser);
  EXPECT_EQ(whole.at("choices").at(0).at("token_ids"), generated);
  EXPECT_EQ(whole.at("prompt_token_ids"), OrderedJson(engine->submitted()[0].prompt));
  EXPECT_EQ(whole.at("prompt_text"), tokenizer->decode(engine->submitted()[0].prompt, false));

  const StreamResult streamed = chat_stream(body);
  EXPECT_EQ(streamed.chunks.front().at("prompt_token_ids"), whole.at("prompt_token_ids"));
  OrderedJson seen = OrderedJson::array();
  for (const OrderedJson& chunk : streamed.chunks) {
    const OrderedJson& choice = chunk.at("choices").at(0);
    if (!choice.contains("token_ids")) continue;
    for (const OrderedJson& id : choice["token_ids"]) seen.push_back(id);
  }
  EXPECT_EQ(seen, generated) << "also of steps that show no text";
  // Not asked for: nothing.
  EXPECT_TRUE(answer("/v1/chat/completions", user_request()).at("choices").at(0).at("token_ids").is_null());
  // Ids would tell a reasoning that is not to be told.
  body["include_reasoning"] = false;
  EXPECT_TRUE(answer("/v1/chat/completions", body).at("choices").at(0).at("token_ids").is_null());

  OrderedJson completion{{"prompt", "Hi"}, {"return_token_ids", true}, {"max_tokens", 3}};
  const OrderedJson text = answer("/v1/completions", completion).at("choices").at(0);
  EXPECT_EQ(text.at("prompt_token_ids"), ids_json("Hi"));
  EXPECT_EQ(text.at("token_ids").size(), 3U);
  completion["stream"] = true;
  const std::vector<std::string> events = sse_events(post("/v1/completions", completion).body);
  EXPECT_EQ(OrderedJson::parse(events[0]).at("choices").at(0).at("prompt_token_ids"), ids_json("Hi"));
}

TEST_F(OutputFields, TruncatedPrompts) {
  start();
  engine->limits_now.max_model_len = 100;
  const auto prompt_of = [&](const OrderedJson& body) {
    const OrderedJson result = answer("/v1/completions", body);
    return tokenizer->decode(engine->submitted().back().prompt, false) + "|" +
           result.at("choices").at(0).at("text").get<std::string>().substr(0, 4);
  };
  OrderedJson body{{"prompt", "abcdefgh"}, {"truncate_prompt_tokens", 3}, {"echo", true}, {"max_tokens", 1}};
  EXPECT_EQ(prompt_of(body), "fgh|fght");
  body["truncation_side"] = "right";
  EXPECT_EQ(prompt_of(body), "abc|abct");
  body = {{"prompt", std::string(300, 'x')}, {"truncate_prompt_tokens", -1}, {"max_tokens", 10}};
  static_cast<void>(prompt_of(body));
  EXPECT_EQ(engine->submitted().back().prompt.size(), 90U) << "what the context holds beside max_tokens";
  // A chat keeps its end, where the answer begins.
  OrderedJson chat_body = user_request(std::string(300, 'y'));
  chat_body.update({{"truncate_prompt_tokens", 20}, {"max_tokens", 5}});
  static_cast<void>(answer("/v1/chat/completions", chat_body));
  EXPECT_TRUE(tokenizer->decode(engine->submitted().back().prompt, false).ends_with("y<|assistant|><think>"));
  EXPECT_EQ(engine->submitted().back().prompt.size(), 20U);
  for (const int wrong : {0, -2}) {
    body["truncate_prompt_tokens"] = wrong;
    EXPECT_EQ(post("/v1/completions", body).status, 400);
  }
}

TEST_F(OutputFields, StreamInterval) {
  start();
  engine->script = [](const EngineRequest& /*request*/) { return script_of("</think>abcdefg"); };
  OrderedJson body = with("stream_interval", 3);
  body["logprobs"] = true;
  std::vector<std::string> pieces;
  size_t logprobs = 0;
  for (const OrderedJson& chunk : chat_stream(body).chunks) {
    const OrderedJson& choice = chunk.at("choices").at(0);
    if (choice.at("delta").contains("content")) pieces.push_back(choice["delta"]["content"]);
    if (!choice.at("logprobs").is_null()) logprobs += choice["logprobs"]["content"].size();
  }
  // The role; the tag alone shows nothing; then three tokens at a time; the ending token comes with the last.
  EXPECT_EQ(pieces, (std::vector<std::string>{"", "abc", "def", "g"}));
  EXPECT_EQ(logprobs, 9U);
  EXPECT_EQ(chat(with("stream_interval", 0)).status, 400);
}

TEST_F(OutputFields, StreamIntervalOfTheServer) {
  settings.stream_interval = 3;
  start();
  engine->script = [](const EngineRequest& /*request*/) { return script_of("</think>abcdefg"); };
  const auto pieces = [&](const OrderedJson& body) {
    std::vector<std::string> seen;
    for (const OrderedJson& chunk : chat_stream(body).chunks) {
      const OrderedJson& delta = chunk.at("choices").at(0).at("delta");
      if (delta.contains("content")) seen.push_back(delta["content"]);
    }
    return seen;
  };
  EXPECT_EQ(pieces(user_request()), (std::vector<std::string>{"", "abc", "def", "g"}));
  EXPECT_EQ(pieces(with("stream_interval", 4)), (std::vector<std::string>{"", "abcd", "efg"}))
      << "the request wins";
}

TEST_F(OutputFields, RequestIds) {
  start();
  EXPECT_EQ(answer("/v1/chat/completions", with("request_id", "mine")).at("id"), "chatcmpl-mine");
  EXPECT_EQ(answer("/v1/chat/completions", with("rid", "theirs")).at("id"), "chatcmpl-theirs");
  const RawResponse response = fetch(
      port(),
      post_text("/v1/chat/completions", dump_json(with("request_id", "mine")), "X-Request-Id: head\r\n"));
  EXPECT_EQ(OrderedJson::parse(response.body).at("id"), "chatcmpl-head") << "the header wins";
}

/// What people send to switch thinking off where it cannot be: the prompt stays as it is.
TEST_F(OutputFields, WhatTheTemplateDoesNotReadChangesNoPrompt) {
  start();
  const auto prompt_of = [&](const OrderedJson& body) {
    static_cast<void>(answer("/v1/chat/completions", body));
    return engine->submitted().back().prompt;
  };
  const auto plain = prompt_of(user_request());
  for (const char* kwargs : {R"({"thinking": false})", R"({"enable_thinking": false})", R"({"nothink": 1})"})
    EXPECT_EQ(prompt_of(with("chat_template_kwargs", OrderedJson::parse(kwargs))), plain) << kwargs;
  EXPECT_EQ(prompt_of(with("extra_body", {{"chat_template_kwargs", {{"reasoning_effort", "low"}}}})), plain)
      << "a client that puts extra_body into the body means nothing by it";
  EXPECT_NE(prompt_of(with("chat_template_kwargs", {{"reasoning_effort", "low"}})), plain);
}

TEST_F(OutputFields, AbortedAnswersEndWithWhatTheyHave) {
  automatic_steps = false;
  start();
  engine->script = [](const EngineRequest& /*request*/) {
    FakeScript script = script_of("r</think>abc");
    script.endless = true;
    return script;
  };
  RawClient client(port());
  ASSERT_TRUE(client.send(post_text("/v1/chat/completions", dump_json(with("request_id", "x")))));
  ASSERT_TRUE(eventually([&] { return engine->running() == 1; }));
  for (int i = 0; i < 4; ++i) engine->step();
  EXPECT_EQ(post("/abort_request", {{"rid", "other"}}).status, 200);
  EXPECT_EQ(engine->running(), 1U);
  EXPECT_EQ(post("/abort_request", {{"rid", "chatcmpl-x"}}).status, 200);
  const auto response = client.read();
  ASSERT_TRUE(response);
  const OrderedJson choice = OrderedJson::parse(response->body).at("choices").at(0);
  EXPECT_EQ(choice.at("finish_reason"), "abort");
  EXPECT_EQ(choice.at("message").at("content"), "ab");
  EXPECT_TRUE(eventually([&] { return engine->running() == 0; }));
  EXPECT_EQ(post("/abort_request", OrderedJson::object()).status, 400);
}

/// Before the first token, behind it and whole or streamed; the others wait for the first or run beside it.
TEST_F(OutputFields, AbortedAnswersOfSeveralChoicesEndWithWhatTheyHave) {
  automatic_steps = false;
  start();
  engine->script = [](const EngineRequest& /*request*/) {
    FakeScript script = script_of("r</think>abc");
    script.endless = true;
    return script;
  };
  OrderedJson body = with("n", 3);
  for (const int64_t shared : {0, 1}) {
    engine->limits_now.shared_prefix_tokens = shared;
    for (const int steps : {0, 4}) {
      for (const bool stream : {false, true}) {
        const std::string which = cat("shared ", shared, ", steps ", steps, ", stream ", stream);
        body["stream"] = stream;
        RawClient client(port());
        ASSERT_TRUE(client.send(post_text("/v1/chat/completions", dump_json(body))));
        const size_t first = shared > 0 ? 1 : 3;
        ASSERT_TRUE(eventually([&] { return engine->running() == first; })) << which;
        for (int i = 0; i < steps; ++i) {
          engine->step();
          ASSERT_TRUE(eventually([&] { return engine->running() == 3; })) << which;
        }
        EXPECT_EQ(post("/abort_request", {{"abort_all", true}}).status, 200);
        const auto response = client.read();
        ASSERT_TRUE(response) << which;
        ASSERT_EQ(response->status, 200) << which << response->body;
        EXPECT_TRUE(eventually([&] { return engine->running() == 0; })) << which;
        if (stream) {
          size_t ends = 0;
          for (size_t at = 0;
               (at = response->body.find(R"("finish_reason":"abort")", at)) != std::string::npos; ++at)
            ++ends;
          EXPECT_EQ(ends, 3U) << which << response->body;
          EXPECT_TRUE(response->body.ends_with("data: [DONE]\n\n")) << which << response->body;
          continue;
        }
        const OrderedJson choices = OrderedJson::parse(response->body).at("choices");
        ASSERT_EQ(choices.size(), 3U) << which;
        for (const OrderedJson& choice : choices) EXPECT_EQ(choice.at("finish_reason"), "abort") << which;
        const OrderedJson& content = choices.at(0).at("message").at("content");
        EXPECT_EQ(content, steps > 0 ? OrderedJson("ab") : OrderedJson(nullptr)) << which;
      }
    }
  }
}

TEST_F(OutputFields, ThePrefixCacheIsForgotten) {
  start();
  using Asked = std::vector<std::pair<bool, bool>>;
  const auto asked = [&] {
    Asked seen;
    for (const CacheReset& reset : engine->resets()) seen.emplace_back(reset.running, reset.tier);
    return seen;
  };
  const auto call = [&](const std::string& head) {
    return fetch(port(), head + " HTTP/1.1\r\nHost: x\r\n\r\n");
  };
  RawResponse response = call("POST /reset_prefix_cache");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "");
  EXPECT_EQ(asked(), (Asked{{false, false}}));
  EXPECT_EQ(call("POST /reset_prefix_cache?reset_running_requests=True&reset_external=0").status, 200);
  EXPECT_EQ(call("POST /reset_prefix_cache?reset_external=true&other=1").status, 200);
  EXPECT_EQ(post("/reset_prefix_cache", {{"reset_running_requests", true}}).status, 200);
  EXPECT_EQ(asked(), (Asked{{false, false}, {true, false}, {false, true}, {true, false}}));
  response = call("POST /reset_prefix_cache?reset_external=maybe");
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("query.reset_external"), std::string::npos) << response.body;
  EXPECT_EQ(post("/reset_prefix_cache", {{"reset_external", 1}}).status, 400);
  EXPECT_EQ(call("GET /reset_prefix_cache").status, 405);
  // SGLang's, whose clients look at the first words.
  for (const char* method : {"GET", "POST"}) {
    response = call(std::string(method) + " /flush_cache");
    EXPECT_EQ(response.status, 200);
    EXPECT_TRUE(response.body.starts_with("Cache flushed.")) << response.body;
  }
  EXPECT_EQ(asked().size(), 6U);
  engine->alive_now = false;
  EXPECT_EQ(call("POST /reset_prefix_cache").status, 503);
  EXPECT_EQ(call("POST /flush_cache").status, 503);
  EXPECT_EQ(asked().size(), 6U);
}

/// What the shared stream cases say of chunks, usage and logprobs; their texts and calls are checked in
/// stream_test.cc.
TEST_F(OutputFields, KeysOfTheSharedStreamCases) {
  start();
  std::ifstream file(std::string(GLINT_TEST_DATA) + "/text/text-cases.jsonl");
  std::set<std::string> seen;
  for (std::string line; std::getline(file, line);) {
    const OrderedJson one = OrderedJson::parse(line);
    const OrderedJson& expected = one.at("expected");
    const bool hides = one.at("id") == "strm-030";
    if (!hides && !expected.contains("usage_chunk") && !expected.contains("every_chunk_has_usage") &&
        !expected.contains("last_line")) {
      continue;
    }
    SCOPED_TRACE(one.at("id").get<std::string>());
    seen.insert(one["id"]);
    const auto pieces = one.at("chunks").get<std::vector<std::string>>();
    engine->script = [pieces](const EngineRequest& /*request*/) { return script_of_pieces(pieces); };
    OrderedJson body = user_request();
    body.update(one.at("request"));
    if (hides) body["return_token_ids"] = true;
    const std::string text = chat(body).body;
    EXPECT_TRUE(text.ends_with("data: [DONE]\n\n"));
    const StreamResult result = read_chat_stream(text);
    const OrderedJson& first = result.chunks.front();
    EXPECT_EQ(first.at("choices").at(0).at("delta"),
              OrderedJson::parse(R"({"role": "assistant", "content": ""})"));
    if (expected.contains("usage_chunk")) {
      EXPECT_TRUE(result.chunks.back().at("choices").empty());
      EXPECT_TRUE(result.chunks.back().at("usage").at("completion_tokens_details").at("reasoning_tokens") >
                  0);
      for (size_t i = 0; i + 1 < result.chunks.size(); ++i) EXPECT_FALSE(result.chunks[i].contains("usage"));
    }
    for (const OrderedJson& chunk : result.chunks) {
      if (expected.contains("every_chunk_has_usage")) {
        EXPECT_TRUE(chunk.at("usage").is_object());
      }
      if (!hides) continue;
      EXPECT_TRUE(chunk.at("choices").at(0).at("logprobs").is_null());
      EXPECT_FALSE(chunk.at("choices").at(0).contains("token_ids"));
    }
    if (expected.contains("first_chunk_completion_tokens")) {
      EXPECT_EQ(first.at("usage").at("completion_tokens"), expected["first_chunk_completion_tokens"]);
    }
  }
  EXPECT_EQ(seen, (std::set<std::string>{"strm-001", "strm-025", "strm-026", "strm-030"}));
}

/// Every field of the two requests that is not worth a test of its own, or whose test stands elsewhere: is it
/// honoured or ignored (200), or refused (400)? 0: the route does not know it as a field of its own, which is
/// the same as ignored.
struct Row {
  const char* field;
  const char* value;
  int chat, completions;
};

constexpr Row kRows[] = {
    // OpenAI's
    {"model", "\"glm-5.3\"", 200, 200},
    {"model", "5", 400, 400},
    {"logprobs", "true", 200, 400},
    {"logprobs", "1", 400, 200},
    {"top_logprobs", "1", 400, 200},
    {"stream_options", R"({"include_usage": true})", 400, 400},  // without stream
    {"response_format", R"({"type": "text"})", 200, 200},
    {"response_format", R"({"type": "xml"})", 400, 400},
    {"response_format", "{}", 400, 400},
    {"tools", R"([{"type": "function", "function": {"name": "f"}}])", 200, 200},
    {"tools", "[]", 400, 200},
    {"tool_choice", "\"none\"", 200, 200},
    {"tool_choice", "\"auto\"", 400, 200},  // without tools
    {"frequency_penalty", "0.5", 200, 200},
    {"presence_penalty", "-2", 200, 200},
    {"presence_penalty", "-2.1", 400, 400},
    {"logit_bias", R"({"65": 1.5})", 200, 200},
    {"logit_bias", R"({"x": 1})", 400, 400},
    {"max_tokens", "5", 200, 200},
    {"max_completion_tokens", "5", 200, 200},
    {"n", "2", 200, 200},
    {"n", "0", 400, 400},
    {"seed", "-9223372036854775808", 200, 200},
    {"stop", "[\"a\", \"b\"]", 200, 200},
    {"stop", "\"\"", 400, 400},
    {"stream", "false", 200, 200},
    {"temperature", "2", 200, 200},
    {"temperature", "2.01", 400, 400},
    {"top_p", "1", 200, 200},
    {"top_p", "1.01", 400, 400},
    {"parallel_tool_calls", "false", 200, 200},
    {"reasoning_effort", "\"none\"", 200, 200},
    {"reasoning_effort", "\"most\"", 400, 200},
    {"user", "\"u\"", 200, 200},
    {"metadata", R"({"a": "b"})", 200, 200},
    {"store", "true", 200, 200},
    {"service_tier", "\"auto\"", 200, 200},
    {"safety_identifier", "\"s\"", 200, 200},
    {"prompt_cache_key", "\"k\"", 200, 200},
    {"verbosity", "\"low\"", 200, 200},
    {"prediction", "{}", 200, 200},
    {"modalities", "[\"text\"]", 200, 200},
    {"modalities", "[\"text\", \"audio\"]", 400, 400},
    {"audio", R"({"voice": "x"})", 400, 400},
    {"web_search_options", "{}", 400, 400},
    {"functions", "[{}]", 400, 400},
    {"function_call", "\"auto\"", 400, 400},
    {"suffix", "\"s\"", 400, 400},
    {"best_of", "1", 200, 200},
    {"best_of", "2", 400, 400},
    // vLLM's: sampling
    {"top_k", "-1", 200, 200},
    {"top_k", "-2", 400, 400},
    {"min_p", "1", 200, 200},
    {"min_p", "1.1", 400, 400},
    {"repetition_penalty", "1.1", 200, 200},
    {"repetition_penalty", "0", 400, 400},
    {"min_tokens", "1", 200, 200},
    {"stop_token_ids", "[65]", 200, 200},
    {"stop_token_ids", "[154880]", 400, 400},
    {"include_stop_str_in_output", "true", 200, 200},
    {"ignore_eos", "true", 200, 200},
    {"skip_special_tokens", "false", 200, 200},
    {"spaces_between_special_tokens", "false", 200, 200},
    {"bad_words", "[\"x\"]", 200, 200},
    {"allowed_token_ids", "[65, 66]", 200, 200},
    {"allowed_token_ids", "[]", 400, 400},
    {"prompt_logprobs", "1", 200, 200},
    {"logprob_token_ids", "[]", 200, 200},
    {"logprob_token_ids", "[65]", 400, 400},  // without logprobs
    {"use_beam_search", "false", 200, 200},
    {"use_beam_search", "true", 400, 400},
    {"length_penalty", "1.0", 200, 200},
    {"truncate_prompt_tokens", "-1", 200, 200},
    {"truncation_side", "\"left\"", 200, 200},
    {"truncation_side", "\"middle\"", 400, 400},
    {"watermarking", R"({"x": 1})", 400, 400},
    // vLLM's: the rest
    {"thinking_token_budget", "-1", 200, 200},
    {"thinking_token_budget", "-2", 400, 400},
    {"include_reasoning", "false", 200, 200},
    {"thinking", R"({"type": "disabled"})", 200, 200},
    {"thinking", R"({"type": "maybe"})", 400, 200},
    {"echo", "true", 200, 200},
    {"add_generation_prompt", "false", 200, 200},
    {"continue_final_message", "true", 200, 200},
    {"add_special_tokens", "true", 200, 200},
    {"documents", "[{}]", 200, 200},
    {"chat_template", "\"x\"", 400, 200},
    {"chat_template_kwargs", R"({"reasoning_effort": "low"})", 200, 200},
    {"chat_template_kwargs", "[]", 400, 200},
    {"media_io_kwargs", "{}", 200, 200},
    {"mm_processor_kwargs", "{}", 200, 200},
    {"priority", "-1", 200, 200},
    {"session_id", "\"s\"", 200, 200},
    {"return_tokens_as_token_ids", "true", 200, 200},
    {"structured_outputs", R"({"regex": "a", "json": {}})", 400, 400},
    {"structured_outputs", "{}", 400, 400},
    {"structured_outputs", R"({"regex": null})", 400, 400},
    {"structured_outputs", R"({"json_object": false})", 400, 400},
    {"structured_outputs", R"({"regx": "a"})", 400, 400},
    {"structured_outputs", R"({"regex": "a", "whitespace_pattern": " "})", 400, 400},
    {"request_id", "\"r\"", 200, 200},
    {"return_token_ids", "true", 200, 200},
    {"return_prompt_text", "true", 200, 200},
    {"return_prompt_text", "1", 400, 400},
    {"stream_interval", "2", 200, 200},
    {"stream_interval", "0", 400, 400},
    {"cache_salt", "\"s\"", 200, 200},
    {"cache_salt", "\"\"", 400, 400},
    {"kv_transfer_params", "{}", 400, 400},
    {"vllm_xargs", "{}", 200, 200},
    {"vllm_xargs", R"({"a": 1})", 400, 400},
    {"prompt_embeds", "\"x\"", 400, 400},
    {"repetition_detection", "{}", 400, 400},
    {"a_field_nobody_knows", "{}", 200, 200},
};

/// The names that vLLM's two requests know, from their definitions (messages and prompt are in every
/// request).
constexpr const char* kNames[] = {"model",
                                  "frequency_penalty",
                                  "logit_bias",
                                  "logprobs",
                                  "top_logprobs",
                                  "max_tokens",
                                  "max_completion_tokens",
                                  "n",
                                  "presence_penalty",
                                  "response_format",
                                  "seed",
                                  "stop",
                                  "stream",
                                  "stream_options",
                                  "temperature",
                                  "top_p",
                                  "tools",
                                  "tool_choice",
                                  "parallel_tool_calls",
                                  "reasoning_effort",
                                  "user",
                                  "top_k",
                                  "min_p",
                                  "repetition_penalty",
                                  "min_tokens",
                                  "stop_token_ids",
                                  "include_stop_str_in_output",
                                  "ignore_eos",
                                  "skip_special_tokens",
                                  "spaces_between_special_tokens",
                                  "bad_words",
                                  "allowed_token_ids",
                                  "prompt_logprobs",
                                  "logprob_token_ids",
                                  "use_beam_search",
                                  "length_penalty",
                                  "truncate_prompt_tokens",
                                  "truncation_side",
                                  "watermarking",
                                  "thinking_token_budget",
                                  "include_reasoning",
                                  "echo",
                                  "add_generation_prompt",
                                  "continue_final_message",
                                  "add_special_tokens",
                                  "documents",
                                  "chat_template",
                                  "chat_template_kwargs",
                                  "media_io_kwargs",
                                  "mm_processor_kwargs",
                                  "structured_outputs",
                                  "priority",
                                  "request_id",
                                  "session_id",
                                  "return_tokens_as_token_ids",
                                  "return_token_ids",
                                  "return_prompt_text",
                                  "cache_salt",
                                  "kv_transfer_params",
                                  "vllm_xargs",
                                  "repetition_detection",
                                  "stream_interval",
                                  "suffix"};

TEST_F(OutputFields, EveryFieldIsHonouredIgnoredOrRefused) {
  start();
  std::set<std::string> known;
  for (const Row& row : kRows) known.insert(row.field);
  for (const char* name : kNames) EXPECT_TRUE(known.contains(name)) << name;
  for (const Row& row : kRows) {
    OrderedJson body = user_request();
    // What some fields need.
    if (std::string_view(row.field) == "continue_final_message") {
      body["messages"].push_back({{"role", "assistant"}, {"content", "The"}});
    }
    body[row.field] = OrderedJson::parse(row.value);
    const RawResponse chat_response = chat(body);
    EXPECT_EQ(chat_response.status, row.chat) << row.field << " " << row.value << " " << chat_response.body;
    OrderedJson completion{{"prompt", "Hi"}};
    completion[row.field] = body[row.field];
    const RawResponse response = post("/v1/completions", completion);
    EXPECT_EQ(response.status, row.completions) << row.field << " " << row.value << " " << response.body;
    for (const RawResponse* refused : {&chat_response, &response}) {
      if (refused->status != 400) continue;
      const std::string message = OrderedJson::parse(refused->body).at("error").at("message");
      EXPECT_NE(message.find(row.field), std::string::npos) << message;
    }
    // null is the same as absent.
    body[row.field] = nullptr;
    EXPECT_EQ(chat(body).status, 200) << row.field;
  }
}

TEST_F(OutputFields, AFormThatIsNoneIsNamed) {
  start();
  const auto error_of = [&](const char* field, const char* value) {
    OrderedJson body = user_request();
    body[field] = OrderedJson::parse(value);
    return OrderedJson::parse(chat(body).body).at("error");
  };
  OrderedJson error = error_of("structured_outputs", R"({"regx": "a"})");
  EXPECT_EQ(error.at("param"), "structured_outputs.regx");
  EXPECT_EQ(error.at("message"),
            "structured_outputs.regx is not known; use json, json_object, regex, choice or grammar");
  error = error_of("structured_outputs", "{}");
  EXPECT_EQ(error.at("param"), "structured_outputs");
  error = error_of("response_format", "{}");
  EXPECT_EQ(error.at("param"), "response_format");
}

TEST_F(OutputFields, OnlyTheAssistantsLastMessageIsContinued) {
  start();
  OrderedJson body = user_request();
  body["continue_final_message"] = true;
  for (const char* role : {"system", "user", "tool"}) {
    body["messages"].push_back({{"role", role}, {"content", "x"}});
    const RawResponse response = chat(body);
    EXPECT_EQ(response.status, 400) << role;
    EXPECT_EQ(OrderedJson::parse(response.body).at("error").at("param"), "continue_final_message") << role;
  }
  body["messages"].push_back({{"role", "assistant"}, {"content", "x"}});
  EXPECT_EQ(chat(body).status, 200);
  body["add_generation_prompt"] = true;
  EXPECT_EQ(chat(body).status, 400);
}

}  // namespace
}  // namespace glint
