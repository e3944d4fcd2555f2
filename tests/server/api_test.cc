// Routes, errors and the life of the server, against a scripted engine.
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "api_fixture.h"
#include "byte_tokenizer.h"
#include "server/api_service.h"
#include "server/fields.h"

namespace glint {
namespace {

using Ms = std::chrono::milliseconds;

OrderedJson error_of_body(const RawResponse& response) {
  const OrderedJson body = OrderedJson::parse(response.body);
  EXPECT_TRUE(body.contains("error")) << response.body;
  const OrderedJson& error = body.at("error");
  for (const char* key : {"message", "type", "param", "code"})
    EXPECT_TRUE(error.contains(key)) << response.body;
  EXPECT_EQ(error.at("code"), response.status);
  EXPECT_FALSE(error.at("message").get<std::string>().empty());
  return error;
}

TEST_F(ApiTest, WholeChat) {
  start();
  OrderedJson body = user_request("Hello");
  body["model"] = "glm-5.3";
  const RawResponse response = chat(body);
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
  const OrderedJson answer = OrderedJson::parse(response.body);
  EXPECT_EQ(answer.at("object"), "chat.completion");
  EXPECT_EQ(answer.at("model"), "glm-5.3");
  EXPECT_EQ(answer.at("id").get<std::string>().rfind("chatcmpl-", 0), 0U);
  const OrderedJson& choice = answer.at("choices").at(0);
  EXPECT_EQ(choice.at("message").at("role"), "assistant");
  EXPECT_EQ(choice.at("message").at("content"), "answer");
  EXPECT_EQ(choice.at("message").at("reasoning"), "thought");
  EXPECT_FALSE(choice.at("message").contains("tool_calls"));
  EXPECT_EQ(choice.at("finish_reason"), "stop");
  EXPECT_EQ(choice.at("stop_reason"), kUser);
  const auto submitted = engine->submitted();
  ASSERT_EQ(submitted.size(), 1U);
  const std::string prompt = "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>Hello<|assistant|><think>";
  EXPECT_EQ(submitted[0].prompt, ids_of(prompt));
  const OrderedJson& usage = answer.at("usage");
  EXPECT_EQ(usage.at("prompt_tokens"), submitted[0].prompt.size());
  EXPECT_EQ(usage.at("completion_tokens"), 7 + 1 + 6 + 1);
  EXPECT_EQ(usage.at("total_tokens"), submitted[0].prompt.size() + 15);
  EXPECT_EQ(usage.at("completion_tokens_details").at("reasoning_tokens"), 7);
}

TEST_F(ApiTest, SamplingReachesTheEngine) {
  defaults.top_p = 0.95;
  defaults.temperature = 0.6;
  start();
  ASSERT_EQ(chat(user_request()).status, 200);
  OrderedJson body = user_request();
  body.update({{"temperature", 0.5},
               {"top_p", 0.25},
               {"top_k", -1},
               {"min_p", 0.125},
               {"seed", -3},
               {"stop", "END"},
               {"stop_token_ids", {7, 8}},
               {"min_tokens", 2},
               {"max_tokens", 9},
               {"max_completion_tokens", 8},
               {"ignore_eos", true},
               {"skip_special_tokens", false},
               {"presence_penalty", 0.5},
               {"frequency_penalty", -2},
               {"repetition_penalty", 1.25},
               {"logit_bias", {{"5", 1}, {"6", -2.5}, {"7", 1000}, {"05", 3}}},
               {"allowed_token_ids", {3, 4}},
               {"bad_words", {"ab", " c"}},
               {"logprobs", true},
               {"top_logprobs", 20},
               {"prompt_logprobs", 2},
               {"thinking_token_budget", 100},
               {"priority", -7}});
  ASSERT_EQ(chat(body).status, 200);
  body = user_request();
  body.update({{"temperature", 1e-6}, {"top_k", 5}});
  ASSERT_EQ(chat(body).status, 200);
  body["temperature"] = 0.001;
  ASSERT_EQ(chat(body).status, 200);
  const auto submitted = engine->submitted();
  EXPECT_EQ(submitted[0].sampling.temperature, 0.6F);
  EXPECT_EQ(submitted[0].sampling.top_p, 0.95F);
  EXPECT_EQ(submitted[0].sampling.max_tokens, 4096 - static_cast<int64_t>(submitted[0].prompt.size()));
  const SamplingParams& s = submitted[1].sampling;
  EXPECT_EQ(s.temperature, 0.5F);
  EXPECT_EQ(s.top_p, 0.25F);
  EXPECT_EQ(s.top_k, 0);
  EXPECT_EQ(s.min_p, 0.125F);
  EXPECT_EQ(s.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(s.stop, std::vector<std::string>{"END"});
  EXPECT_EQ(s.stop_token_ids, (std::vector<TokenId>{7, 8}));
  EXPECT_EQ(s.min_tokens, 2);
  EXPECT_EQ(s.max_tokens, 8);
  EXPECT_TRUE(s.ignore_eos);
  EXPECT_FALSE(s.skip_special_tokens);
  EXPECT_EQ(s.presence_penalty, 0.5F);
  EXPECT_EQ(s.frequency_penalty, -2.0F);
  EXPECT_EQ(s.repetition_penalty, 1.25F);
  ASSERT_EQ(s.logit_bias.size(), 3U) << "5 and 05 are one id";
  EXPECT_EQ(s.logit_bias[0].bias, 3.0F);
  EXPECT_EQ(s.logit_bias[1].bias, -2.5F);
  EXPECT_EQ(s.logit_bias[2].bias, 100.0F) << "cut to OpenAI's bound";
  EXPECT_EQ(*s.allowed_token_ids, (std::vector<TokenId>{3, 4}));
  // At the beginning of a text; behind a space only where that has as many tokens.
  EXPECT_EQ(s.bad_words, (std::vector<std::vector<TokenId>>{ids_of("ab"), ids_of("c")}));
  EXPECT_EQ(s.logprobs, 20);
  EXPECT_EQ(s.prompt_logprobs, 2);
  EXPECT_EQ(s.reasoning.budget, 100);
  EXPECT_EQ(s.reasoning.close, ids_of("</think>")[0]);
  EXPECT_EQ(s.reasoning.ends, ids_of("</think><tool_call>"));
  EXPECT_EQ(submitted[1].priority, -7);
  EXPECT_EQ(submitted[0].sampling.logprobs, std::nullopt);
  EXPECT_EQ(submitted[0].sampling.reasoning.budget, -1);
  EXPECT_TRUE(submitted[0].sampling.bad_words.empty());
  EXPECT_EQ(submitted[2].sampling.temperature, 0.0F);
  EXPECT_EQ(submitted[2].sampling.top_k, 5);
  EXPECT_EQ(submitted[3].sampling.temperature, 0.01F);
}

/// One request for every "err-" case of the shared list.
class ErrorCases : public ApiTest {};

TEST_F(ErrorCases, All) {
  start();
  engine->limits_now.max_model_len = 512;
  std::ifstream file(std::string(GLINT_TEST_DATA) + "/text/text-cases.jsonl");
  ASSERT_TRUE(file);
  int seen = 0;
  for (std::string line; std::getline(file, line);) {
    const OrderedJson one = OrderedJson::parse(line);
    if (one.at("kind") != "error") continue;
    ++seen;
    OrderedJson request = one.at("request");
    std::string path = "/v1/chat/completions";
    if (request.contains("endpoint")) path = request["endpoint"];
    request.erase("endpoint");
    std::string body =
        request.contains("raw_body") ? request["raw_body"].get<std::string>() : dump_json(request);
    if (request.contains("messages") && request["messages"].is_string())
      body = dump_json(user_request(std::string(600, 'x')));
    const RawResponse response = fetch(port(), post_text(path, body));
    const OrderedJson& expected = one.at("expected");
    SCOPED_TRACE(one.at("id").get<std::string>() + " " + response.body);
    EXPECT_EQ(response.status, expected.at("status"));
    if (response.status == 200) {
      if (expected.contains("max_tokens_used")) {
        EXPECT_EQ(engine->submitted().back().sampling.max_tokens, expected["max_tokens_used"]);
      }
      continue;
    }
    const OrderedJson error = error_of_body(response);
    if (expected.contains("param")) {
      EXPECT_EQ(error.at("param"), expected["param"]);
    }
    if (expected.contains("error")) {
      for (const auto& [key, value] : expected["error"].items()) EXPECT_EQ(error.at(key), value);
    }
  }
  EXPECT_EQ(seen, 24);
}

TEST_F(ApiTest, WrongTypesAreListed) {
  start();
  const OrderedJson error = error_of_body(fetch(
      port(),
      post_text("/v1/chat/completions",
                R"({"messages":[{"role":"user","content":"x"}],"temperature":"hot","n":1.5,"stream":"yes",)"
                R"("stop":[1],"seed":99999999999999999999999,"stop_token_ids":"7","top_k":[],"min_p":{}})")));
  EXPECT_EQ(error.at("type"), "Bad Request");
  EXPECT_EQ(error.at("param"), "body.temperature");
  const std::string message = error.at("message");
  for (const char* name :
       {"temperature", "body.n:", "stream", "stop:", "seed", "stop_token_ids", "top_k", "min_p"}) {
    EXPECT_NE(message.find(name), std::string::npos) << name << " in " << message;
  }
}

TEST_F(ApiTest, EveryFieldWithEveryTypeIsNever500) {
  start();
  const char* fields[] = {"messages",
                          "model",
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
                          "thinking_token_budget",
                          "include_reasoning",
                          "echo",
                          "add_generation_prompt",
                          "continue_final_message",
                          "add_special_tokens",
                          "documents",
                          "chat_template",
                          "chat_template_kwargs",
                          "structured_outputs",
                          "priority",
                          "request_id",
                          "cache_salt",
                          "prompt",
                          "suffix",
                          "best_of",
                          "truncate_prompt_tokens",
                          "vllm_xargs"};
  const char* values[] = {"null",
                          "true",
                          "false",
                          "0",
                          "-1",
                          "1",
                          "3.5",
                          "1e308",
                          "-1e400",
                          "99999999999999999999999",
                          "\"\"",
                          "\"x\"",
                          "\"\\u0000\"",
                          "[]",
                          "[[]]",
                          "[null]",
                          "[1,2]",
                          "[\"a\"]",
                          "{}",
                          "{\"type\":\"function\"}",
                          "{\"a\":{\"b\":[]}}",
                          "[{\"role\":\"user\"}]",
                          "[{\"role\":\"assistant\",\"tool_calls\":[{}]}]",
                          "[{\"type\":\"function\",\"function\":7}]"};
  RawClient client(port());
  for (const char* path : {"/v1/chat/completions", "/v1/completions"}) {
    for (const char* field : fields) {
      for (const char* value : values) {
        std::string body = "{";
        if (std::string_view(field) != "messages") body += R"("messages":[{"role":"user","content":"x"}],)";
        if (std::string_view(field) != "prompt") body += R"("prompt":"x",)";
        body += cat("\"", field, "\":", value, ",\"ignored_field\":1}");
        ASSERT_TRUE(client.send(post_text(path, body)));
        const auto response = client.read();
        ASSERT_TRUE(response) << body;
        EXPECT_TRUE(response->status == 200 || response->status == 400 || response->status == 404)
            << response->status << " for " << body << ": " << response->body;
        if (response->status != 200) error_of_body(*response);
      }
    }
  }
}

TEST_F(ApiTest, FieldsOfLaterAreNamed) {
  start();
  const std::pair<const char*, OrderedJson> fields[] = {
      {"use_beam_search", true}, {"best_of", 2}, {"suffix", "x"}};
  for (const auto& [name, value] : fields) {
    OrderedJson body = user_request();
    body[name] = value;
    const RawResponse response = chat(body);
    EXPECT_EQ(response.status, 400) << name;
    EXPECT_EQ(error_of_body(response).at("param"), name);
  }
  OrderedJson neutral = user_request();
  neutral.update({{"best_of", 1},
                  {"logprobs", false},
                  {"top_logprobs", 0},
                  {"logit_bias", OrderedJson::object()},
                  {"presence_penalty", 0},
                  {"frequency_penalty", 0.0},
                  {"repetition_penalty", 1.0},
                  {"bad_words", OrderedJson::array()},
                  {"response_format", {{"type", "text"}}},
                  {"thinking_token_budget", -1},
                  {"priority", 0},
                  {"echo", false},
                  {"n", 1},
                  {"user", "me"},
                  {"top_k", nullptr},
                  {"temperature", nullptr},
                  {"max_tokens", nullptr}});
  EXPECT_EQ(chat(neutral).status, 200);
}

TEST_F(ApiTest, CacheSalts) {
  start();
  OrderedJson body = user_request();
  body["cache_salt"] = "tenant-1";
  EXPECT_EQ(chat(body).status, 200);
  EXPECT_EQ(engine->submitted().back().cache_salt, "tenant-1");
  EXPECT_EQ(chat(user_request()).status, 200);
  EXPECT_EQ(engine->submitted().back().cache_salt, "");
  for (const std::string& salt : {std::string(), std::string(129, 's'), std::string("a/b"),
                                  std::string("a@b"), std::string("a\\b"), std::string("a\0b", 3)}) {
    body["cache_salt"] = salt;
    const RawResponse response = chat(body);
    EXPECT_EQ(response.status, 400) << salt;
    EXPECT_EQ(error_of_body(response).at("param"), "cache_salt");
  }
}

TEST_F(ApiTest, ToolChoices) {
  start();
  engine->script = [](const EngineRequest& /*request*/) {
    return script_of("t</think><tool_call>ping<arg_key>n</arg_key><arg_value>3</arg_value></tool_call>");
  };
  OrderedJson body = user_request();
  body["tools"] = OrderedJson::parse(R"([{"type":"function","function":{"name":"ping","parameters":
      {"type":"object","properties":{"n":{"type":"integer"}}}}}])");
  OrderedJson answer = OrderedJson::parse(chat(body).body);
  const OrderedJson message = answer.at("choices").at(0).at("message");
  EXPECT_TRUE(message.at("content").is_null());
  EXPECT_EQ(message.at("tool_calls").at(0).at("function").at("name"), "ping");
  EXPECT_EQ(message.at("tool_calls").at(0).at("function").at("arguments"), "{\"n\": 3}");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "tool_calls");
  body["tool_choice"] = "none";
  answer = OrderedJson::parse(chat(body).body);
  EXPECT_FALSE(answer.at("choices").at(0).at("message").contains("tool_calls"));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  // A call cannot be promised without constrained sampling: refused, not ignored.
  for (const OrderedJson& choice :
       {OrderedJson("required"), OrderedJson{{"type", "function"}, {"function", {{"name", "ping"}}}}}) {
    body["tool_choice"] = choice;
    const RawResponse response = chat(body);
    EXPECT_EQ(response.status, 400);
    EXPECT_EQ(error_of_body(response).at("param"), "tool_choice");
  }
}

TEST_F(ApiTest, AutoToolChoiceCanBeOff) {
  settings.auto_tool_choice = false;
  start();
  OrderedJson body = user_request();
  body["tools"] = OrderedJson::parse(R"([{"type":"function","function":{"name":"ping"}}])");
  EXPECT_EQ(chat(body).status, 400);
  body["tool_choice"] = "none";
  EXPECT_EQ(chat(body).status, 200);
}

TEST_F(ApiTest, UnknownModelIs404) {
  settings.model_aliases = {"zai-org/GLM-5.3"};
  start();
  OrderedJson body = user_request();
  body["model"] = "gpt-4";
  const RawResponse response = chat(body);
  EXPECT_EQ(response.status, 404);
  const OrderedJson error = error_of_body(response);
  EXPECT_EQ(error.at("type"), "NotFoundError");
  EXPECT_EQ(error.at("message"), "The model `gpt-4` does not exist.");
  body["model"] = "zai-org/GLM-5.3";
  EXPECT_EQ(OrderedJson::parse(chat(body).body).at("model"), "glm-5.3");
  body["model"] = nullptr;
  EXPECT_EQ(chat(body).status, 200);
}

TEST_F(ApiTest, BrokenBodies) {
  start();
  const std::string deep(200'000, '[');
  std::string objects;
  for (int i = 0; i < 5000; ++i) objects += "{\"a\":";
  const std::string huge_number =
      "{\"messages\":[{\"role\":\"user\",\"content\":" + std::string(100'000, '9') + "}]}";
  std::string many_keys = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"";
  for (int i = 0; i < 70'000; ++i) many_keys += cat(",\"k", i, "\":1");
  many_keys += "}]}";
  for (const std::string& body :
       {std::string(""), std::string("{"), std::string("[]"), std::string("7"), std::string("\xff\xfe{}"),
        deep, objects, std::string("{\"messages\":[{\"role\":\"user\",\"content\":\"\xc3\x28\"}]}"),
        std::string("{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}"), huge_number, many_keys,
        std::string("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]} trailing"),
        std::string("{\"messages\":[]}"), std::string("{\"messages\":{}}"), std::string(1000, '\0')}) {
    const RawResponse response = fetch(port(), post_text("/v1/chat/completions", body));
    EXPECT_EQ(response.status, 400) << body.substr(0, 100) << response.body.substr(0, 300);
    EXPECT_LT(response.body.size(), 2000U) << "what is echoed is cut";
    error_of_body(response);
  }
  EXPECT_EQ(chat(user_request()).status, 200);
}

TEST_F(ApiTest, A64MiBBody) {
  start();
  const std::string limit = post_text("/v1/chat/completions", std::string((size_t{64} << 20) + 1, ' '));
  const RawResponse response = fetch(port(), limit);
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(error_of_body(response).at("type"), "Request Entity Too Large");
  // At the limit it is read, and refused for its length in tokens, while others are served.
  OrderedJson body = user_request("");
  const size_t frame = dump_json(body).size();
  body["messages"][0]["content"] = std::string((size_t{64} << 20) - frame, 'a');
  std::thread large([&] { EXPECT_EQ(chat(body).status, 400); });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(chat(user_request()).status, 200);
  large.join();
}

TEST_F(ApiTest, LargeBodiesDoNotDelaySmallOnes) {
  start();
  std::vector<std::thread> clients;
  std::atomic<bool> over{false};
  const std::string large =
      post_text("/v1/chat/completions", dump_json(user_request(std::string(8'000'000, 'a'))));
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      while (!over) EXPECT_EQ(fetch(port(), large).status, 400);
    });
  }
  std::this_thread::sleep_for(Ms(100));
  std::vector<double> delays;
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(fetch(port(), post_text("/v1/chat/completions", "{}")).status, 400);
    delays.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  over = true;
  for (auto& client : clients) client.join();
  std::sort(delays.begin(), delays.end());
  EXPECT_LT(delays[10], 0.25) << "median seconds of a small request beside large ones";
}

TEST_F(ApiTest, ContextLimits) {
  start();
  engine->limits_now.max_model_len = 200;
  OrderedJson body = user_request(std::string(150, 'x'));
  body["max_tokens"] = 100;
  RawResponse response = chat(body);
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(
      error_of_body(response).at("message").get<std::string>().find("maximum context length is 200 tokens"),
      std::string::npos);
  body["max_tokens"] = 5;
  EXPECT_EQ(chat(body).status, 200);
  response = chat(user_request(std::string(400, 'x')));
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("maximum context length is 200 tokens"), std::string::npos);
  // A completion that says nothing asks for 16 tokens or what is left.
  EXPECT_EQ(post("/v1/completions", {{"prompt", std::string(195, 'y')}}).status, 200);
  EXPECT_EQ(engine->submitted().back().sampling.max_tokens, 5);
}

TEST_F(ApiTest, Completions) {
  start();
  engine->script = [](const EngineRequest& request) {
    FakeScript script;
    for (const TokenId id : request.prompt) script.steps.push_back({id});
    script.steps.push_back(ids_of("<think>!"));
    script.stop_token = kEndOfText;
    return script;
  };
  const OrderedJson one = OrderedJson::parse(post("/v1/completions", {{"prompt", "abc"}}).body);
  EXPECT_EQ(one.at("object"), "text_completion");
  EXPECT_EQ(one.at("id").get<std::string>().rfind("cmpl-", 0), 0U);
  EXPECT_EQ(one.at("choices").at(0).at("text"), "abc<think>!");
  EXPECT_TRUE(one.at("choices").at(0).at("stop_reason").is_null()) << "the primary eos is not reported";
  const OrderedJson many = OrderedJson::parse(
      post("/v1/completions", {{"prompt", {"ab", "c"}}, {"n", 2}, {"seed", 5}, {"temperature", 1}}).body);
  ASSERT_EQ(many.at("choices").size(), 4U);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(many["choices"][i]["index"], i);
    EXPECT_EQ(many["choices"][i]["text"], i < 2 ? "ab<think>!" : "c<think>!");
  }
  EXPECT_EQ(many.at("usage").at("prompt_tokens"), 3);
  EXPECT_EQ(many.at("usage").at("completion_tokens"), 2 * 5 + 2 * 4);
  const auto submitted = engine->submitted();
  EXPECT_EQ(submitted[1].sampling.seed, 5U);
  EXPECT_EQ(submitted[2].sampling.seed, 6U);
  const OrderedJson ids = OrderedJson::parse(post("/v1/completions", {{"prompt", {104, 105}}}).body);
  EXPECT_EQ(ids.at("choices").at(0).at("text"), "hi<think>!");
  const OrderedJson lists =
      OrderedJson::parse(post("/v1/completions", {{"prompt", OrderedJson::parse("[[104],[105,106]]")}}).body);
  EXPECT_EQ(lists.at("choices").at(1).at("text"), "ij<think>!");
  for (const char* bad :
       {"[]", "\"\"", "[154880]", "[-1]", "[1.5]", "[\"a\",[]]", "[\"a\",[65]]", "[[65],\"a\"]", "[\"a\",65]",
        "[[1],[]]", "7", "[null]", "[[[1]]]", "[99999999999999999999]"}) {
    EXPECT_EQ(post("/v1/completions", {{"prompt", OrderedJson::parse(bad)}}).status, 400) << bad;
  }
}

TEST_F(ApiTest, TheEndingTokenIsNotText) {
  start();
  OrderedJson body = {{"prompt", "x"}, {"skip_special_tokens", false}};
  const auto text = [&] {
    return OrderedJson::parse(post("/v1/completions", body).body).at("choices").at(0).at("text");
  };
  EXPECT_EQ(text(), "thought</think>answer");
  body["include_stop_str_in_output"] = true;
  EXPECT_EQ(text(), "thought</think>answer<|user|>");
}

TEST_F(ApiTest, StreamedCompletions) {
  start();
  engine->script = [](const EngineRequest& /*request*/) { return script_of_pieces({"ab", "", "c"}); };
  const RawResponse response = post(
      "/v1/completions", {{"prompt", "x"}, {"stream", true}, {"stream_options", {{"include_usage", true}}}});
  const auto events = sse_events(response.body);
  ASSERT_EQ(events.size(), 5U) << response.body;
  EXPECT_EQ(OrderedJson::parse(events[0])["choices"][0]["text"], "ab");
  EXPECT_EQ(OrderedJson::parse(events[1])["choices"][0]["text"], "c");
  EXPECT_EQ(OrderedJson::parse(events[2])["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(OrderedJson::parse(events[3])["usage"]["completion_tokens"], 4);
  EXPECT_EQ(events[4], "[DONE]");
}

TEST_F(ApiTest, ApiKeysGuardV1) {
  settings.api_keys = {"first-key", "second"};
  start();
  const std::string body = dump_json(user_request());
  const auto ask = [&](std::string_view extra) {
    return fetch(port(), post_text("/v1/chat/completions", body, extra));
  };
  EXPECT_EQ(ask("").status, 401);
  EXPECT_EQ(ask("").body, "{\"error\":\"Unauthorized\"}");
  EXPECT_EQ(ask("Authorization: Bearer wrong\r\n").status, 401);
  EXPECT_EQ(ask("Authorization: first-key\r\n").status, 401);
  EXPECT_EQ(ask("Authorization: Bearer first-key\r\n").status, 200);
  EXPECT_EQ(ask("authorization: BEARER second\r\n").status, 200);
  EXPECT_EQ(ask("x-api-key: second\r\n").status, 200);
  EXPECT_EQ(fetch(port(), get_text("/v1/models")).status, 401);
  EXPECT_EQ(fetch(port(), get_text("/v1/unknown")).status, 401);
  EXPECT_EQ(fetch(port(), get_text("/health")).status, 200);
  EXPECT_EQ(fetch(port(),
                  "OPTIONS /v1/models HTTP/1.1\r\nOrigin: http://a\r\n"
                  "Access-Control-Request-Method: POST\r\n\r\n")
                .status,
            200);
}

TEST_F(ApiTest, RoutesAndMethods) {
  start();
  EXPECT_EQ(fetch(port(), get_text("/health")).body, "");
  EXPECT_EQ(fetch(port(), get_text("/ping")).status, 200);
  EXPECT_EQ(fetch(port(), "POST /ping HTTP/1.1\r\nContent-Length: 0\r\n\r\n").status, 200);
  EXPECT_TRUE(OrderedJson::parse(fetch(port(), get_text("/version")).body).at("version").is_string());
  EXPECT_EQ(fetch(port(), get_text("/metrics")).status, 200);
  EXPECT_EQ(error_of_body(fetch(port(), get_text("/nowhere"))).at("type"), "Not Found");
  const RawResponse wrong = fetch(port(), get_text("/v1/chat/completions"));
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(fetch(port(), "DELETE /v1/models HTTP/1.1\r\n\r\n").status, 405);
  const OrderedJson models = OrderedJson::parse(fetch(port(), get_text("/v1/models")).body);
  EXPECT_EQ(models.at("object"), "list");
  EXPECT_EQ(models.at("data").at(0).at("id"), "glm-5.3");
  EXPECT_EQ(models.at("data").at(0).at("root"), "/models/glm");
  EXPECT_EQ(models.at("data").at(0).at("max_model_len"), 4096);
  RawClient client(port());
  ASSERT_TRUE(client.send("HEAD /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_EQ(client.read(true)->status, 200);
  const RawResponse plain = fetch(port(),
                                  "POST /v1/completions HTTP/1.1\r\nContent-Type: text/plain\r\n"
                                  "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(plain.status, 400);
  EXPECT_NE(plain.body.find("application/json"), std::string::npos);
  const RawResponse cors = fetch(port(), post_text("/v1/chat/completions", "{}", "Origin: http://a\r\n"));
  EXPECT_EQ(cors.headers.at("access-control-allow-origin"), "*");
}

TEST_F(ApiTest, RequestIds) {
  start();
  const auto id_of = [&](std::string_view extra, OrderedJson body = user_request()) {
    const RawResponse response = fetch(port(), post_text("/v1/chat/completions", dump_json(body), extra));
    return OrderedJson::parse(response.body).at("id").get<std::string>();
  };
  EXPECT_EQ(id_of("X-Request-Id: abc-1\r\n"), "chatcmpl-abc-1");
  OrderedJson body = user_request();
  body["request_id"] = "from-body";
  EXPECT_EQ(id_of("", body), "chatcmpl-from-body");
  EXPECT_NE(id_of(""), id_of(""));
  EXPECT_LT(id_of("X-Request-Id: " + std::string(5000, 'r') + "\r\n").size(), 200U);
}

TEST_F(ApiTest, LoadingAnswers503) {
  start(false);
  service->set_progress({"reading weights", 0.375, 12});
  RawResponse response = fetch(port(), get_text("/health"));
  EXPECT_EQ(response.status, 503);
  const OrderedJson health = OrderedJson::parse(response.body);
  EXPECT_EQ(health.at("state"), "loading");
  EXPECT_EQ(health.at("percent"), 37);
  EXPECT_EQ(health.at("eta_s"), 12);
  for (const std::string& request : {post_text("/v1/chat/completions", dump_json(user_request())),
                                     post_text("/v1/completions", "{}"), get_text("/v1/models")}) {
    response = fetch(port(), request);
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.headers.at("retry-after"), "12");
    EXPECT_NE(error_of_body(response).at("message").get<std::string>().find("37 %"), std::string::npos);
  }
  EXPECT_EQ(fetch(port(), get_text("/version")).status, 200);
  make_ready();
  EXPECT_EQ(fetch(port(), get_text("/health")).status, 200);
  EXPECT_EQ(chat(user_request()).status, 200);
}

TEST_F(ApiTest, ADeadEngine) {
  automatic_steps = false;
  start();
  RawClient whole(port());
  RawClient stream(port());
  OrderedJson body = user_request();
  ASSERT_TRUE(whole.send(post_text("/v1/chat/completions", dump_json(body))));
  body["stream"] = true;
  ASSERT_TRUE(stream.send(post_text("/v1/chat/completions", dump_json(body))));
  ASSERT_TRUE(eventually([&] { return engine->running() == 2; }));
  engine->step();
  engine->die();
  const auto response = whole.read();
  EXPECT_EQ(response->status, 500);
  EXPECT_EQ(error_of_body(*response).at("type"), "InternalServerError");
  const StreamResult result = read_chat_stream(stream.read()->body);
  EXPECT_EQ(result.error, "the engine has died");
  EXPECT_TRUE(result.done);
  EXPECT_EQ(fetch(port(), get_text("/health")).status, 503);
  EXPECT_EQ(chat(user_request()).status, 503);
}

TEST_F(ApiTest, AClientThatLeavesFreesItsRequest) {
  automatic_steps = false;
  start();
  engine->script = [](const EngineRequest& /*request*/) {
    FakeScript script = script_of("x");
    script.endless = true;
    return script;
  };
  OrderedJson whole = user_request();
  OrderedJson stream = user_request();
  stream["stream"] = true;
  OrderedJson several = user_request();
  several["n"] = 3;
  size_t expected = 0;
  for (const OrderedJson& body : {whole, stream, several}) {
    for (const bool stepped : {false, true}) {  // waiting, running
      RawClient client(port());
      ASSERT_TRUE(client.send(post_text("/v1/chat/completions", dump_json(body))));
      const size_t choices = body.contains("n") ? 3 : 1;
      ASSERT_TRUE(eventually([&] { return engine->running() == choices; }));
      if (stepped) engine->step();
      client.close();
      expected += choices;
      EXPECT_TRUE(eventually([&] { return engine->aborted() == expected; })) << dump_json(body) << stepped;
      EXPECT_EQ(engine->running(), 0U);
      engine->step();
    }
  }
  EXPECT_TRUE(eventually([&] { return service->open_requests() == 0; }));
}

TEST_F(ApiTest, ASlowStreamReaderFreesItsRequest) {
  http.backlog_bytes_max = 64 << 10;
  start();
  engine->script = [](const EngineRequest& /*request*/) {
    FakeScript script;
    script.steps = {std::vector<TokenId>(2000, 'x')};
    script.endless = true;
    return script;
  };
  engine->limits_now.max_model_len = 1'000'000'000;
  OrderedJson body = user_request();
  body["stream"] = true;
  RawClient client(port());
  ASSERT_TRUE(client.send(post_text("/v1/chat/completions", dump_json(body))));
  EXPECT_TRUE(eventually([&] { return engine->aborted() == 1; }, 20'000));
}

TEST_F(ApiTest, DrainLetsRequestsEnd) {
  automatic_steps = false;
  start();
  OrderedJson body = user_request();
  RawClient whole(port());
  ASSERT_TRUE(whole.send(post_text("/v1/chat/completions", dump_json(body))));
  body["stream"] = true;
  RawClient stream(port());
  ASSERT_TRUE(stream.send(post_text("/v1/chat/completions", dump_json(body))));
  ASSERT_TRUE(eventually([&] { return engine->running() == 2; }));
  RawClient idle(port());
  ASSERT_TRUE(idle.send(get_text("/version")));
  ASSERT_TRUE(idle.read());
  service->begin_drain();
  const RawResponse health = fetch(port(), get_text("/health"));
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(OrderedJson::parse(health.body).at("state"), "draining");
  ASSERT_TRUE(idle.send(post_text("/v1/chat/completions", dump_json(body))));
  const auto refused = idle.read();
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->headers.at("connection"), "close");
  EXPECT_FALSE(service->wait_idle(Ms(50)));
  for (int i = 0; i < 20; ++i) engine->step();
  EXPECT_EQ(whole.read()->status, 200);
  EXPECT_TRUE(read_chat_stream(stream.read()->body).done);
  EXPECT_TRUE(service->wait_idle(Ms(2000)));
}

TEST_F(ApiTest, DrainEndsWhatIsLeft) {
  automatic_steps = false;
  start();
  OrderedJson body = user_request();
  RawClient whole(port());
  ASSERT_TRUE(whole.send(post_text("/v1/chat/completions", dump_json(body))));
  body["stream"] = true;
  RawClient stream(port());
  ASSERT_TRUE(stream.send(post_text("/v1/chat/completions", dump_json(body))));
  ASSERT_TRUE(eventually([&] { return engine->running() == 2; }));
  engine->step();
  service->begin_drain();
  EXPECT_FALSE(service->wait_idle(Ms(20)));
  service->fail_rest();
  EXPECT_TRUE(service->wait_idle(Ms(2000)));
  EXPECT_EQ(whole.read()->status, 503);
  const StreamResult result = read_chat_stream(stream.read()->body);
  EXPECT_EQ(result.error, "the server is shutting down");
  EXPECT_TRUE(result.done);
  EXPECT_EQ(engine->aborted(), 2U);
}

TEST(WorkerPoolTest, LargeJobsLeaveAThreadForSmallOnes) {
  WorkerPool pool(3);
  std::mutex gate;
  std::unique_lock closed(gate);
  std::atomic<int> large_started{0};
  std::atomic<int> large_done{0};
  for (int i = 0; i < 6; ++i) {
    pool.submit(
        [&] {
          ++large_started;
          const std::lock_guard wait(gate);
          ++large_done;
        },
        true);
  }
  ASSERT_TRUE(eventually([&] { return large_started == 2; }));
  std::atomic<int> small_done{0};
  for (int i = 0; i < 10; ++i) pool.submit([&] { ++small_done; }, false);
  EXPECT_TRUE(eventually([&] { return small_done == 10; }));
  EXPECT_EQ(large_started, 2);
  closed.unlock();
  EXPECT_TRUE(eventually([&] { return large_done == 6; }));
}

TEST(FieldsTest, EchoedTextIsCutBetweenCharacters) {
  EXPECT_EQ(shortened("short"), "short");
  std::string text(199, 'a');
  text += "\xC3\xA9" + std::string(10, 'b');
  EXPECT_EQ(shortened(text), std::string(199, 'a') + "...");
}

}  // namespace
}  // namespace glint
