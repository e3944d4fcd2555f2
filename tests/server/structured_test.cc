// Structured output and constrained tool calls on whole servers: the real engine with a device whose logits
// are random numbers, so that without a constraint nothing would come out right.
#include <gtest/gtest.h>

#include <set>

#include "api_fixture.h"
#include "base/log.h"
#include "byte_tokenizer.h"
#include "engine/serving_engine.h"

namespace glint {
namespace {

constexpr int64_t kVocab = 154880;

/// Logits that are a function of the token before and its position; drafts that are often the same.
class RandomExecutor final : public Executor {
 public:
  RandomExecutor() {
    config_.vocab_size = kVocab;
    config_.eos_token_id = {kEndOfText, kUser, kObservation};  // else no answer ends
  }
  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] int64_t pages_total() const override { return 1024; }
  [[nodiscard]] int64_t rows_max() const override { return 96; }
  float* execute(const StepDescription& step) override {
    logits_.assign(step.logits_rows.size() * kVocab, -100.0F);
    for (size_t i = 0; i < step.logits_rows.size(); ++i) {
      const auto row = static_cast<size_t>(step.logits_rows[i]);
      fill(i, step.tokens[row], step.positions[row], false);
    }
    return logits_.data();
  }
  float* draft(const DraftDescription& draft) override {
    const StepDescription& step = draft.step;
    logits_.assign(step.logits_rows.size() * kVocab, -100.0F);
    for (size_t i = 0; i < step.logits_rows.size(); ++i) {
      const auto row = static_cast<size_t>(step.logits_rows[i]);
      fill(i, step.tokens[row], step.positions[row] + 1, true);
    }
    return logits_.data();
  }

 private:
  static uint32_t hash(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7FEB352DU;
    x = (x ^ (x >> 15)) * 0x846CA68BU;
    return x ^ (x >> 16);
  }
  void fill(size_t row, int32_t token, int32_t position, bool guess) {
    const uint32_t seed = hash(static_cast<uint32_t>(token) * 31 + static_cast<uint32_t>(position));
    const bool differs = guess && seed % 3 == 0;
    float* const out = logits_.data() + row * kVocab;
    const auto number = [&](int32_t id) {
      return static_cast<float>(hash(seed + static_cast<uint32_t>(id) + (differs ? 7 : 0)) % 1000) / 100;
    };
    for (int32_t id = 0; id < 256; ++id) out[id] = number(id);
    for (int32_t id = 154820; id < 154856; ++id) out[id] = number(id);
    for (const char c : std::string_view("\"]},:")) out[static_cast<unsigned char>(c)] += 4;
    for (const int32_t id : {154842, 154844, 154848, 154850, kUser, kObservation}) out[id] += 3;
  }

  ModelConfig config_;
  std::vector<float> logits_;
};

constexpr const char* kPerson =
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 6},
  "age": {"type": "integer", "minimum": 0, "maximum": 130}, "tags": {"type": "array", "items": {"enum": ["new", "old"]}, "maxItems": 2},
  "next": {"type": ["null", "boolean"]}}, "required": ["name", "age", "next"], "additionalProperties": false})";
constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "set_light", "parameters": {"type": "object", "properties": {
    "room": {"enum": ["kitchen", "hall"]}, "level": {"type": "integer", "minimum": 0, "maximum": 100}, "note": {"type": "string", "maxLength": 5}},
    "required": ["room", "level"]}}},
  {"type": "function", "function": {"name": "set_light_all", "parameters": {"type": "object", "properties": {
    "on": {"type": "boolean"}, "ids": {"type": "array", "items": {"type": "integer"}, "maxItems": 2}}, "required": ["on"]}}},
  {"type": "function", "function": {"name": "stop"}}])";

bool is_person(const OrderedJson& value) {
  if (!value.is_object()) return false;
  std::set<std::string> keys;
  for (const auto& [key, part] : value.items()) keys.insert(key);
  keys.erase("tags");
  if (keys != std::set<std::string>{"name", "age", "next"} || !value["name"].is_string()) return false;
  for (const OrderedJson& tag : value.value("tags", OrderedJson::array())) {
    if (tag != "new" && tag != "old") return false;
  }
  const OrderedJson& next = value["next"];
  return value["age"].is_number_integer() && value["age"] >= 0 && value["age"] <= 130 &&
         (next.is_null() || next.is_boolean());
}

bool is_call(const std::string& name, const OrderedJson& arguments) {
  if (name == "stop") return arguments == OrderedJson::object();
  if (name == "set_light_all") {
    for (const OrderedJson& id : arguments.value("ids", OrderedJson::array())) {
      if (!id.is_number_integer()) return false;
    }
    return arguments.contains("on") && arguments["on"].is_boolean();
  }
  if (name != "set_light" || !arguments.contains("room") || !arguments.contains("level")) return false;
  const OrderedJson& level = arguments["level"];
  return (arguments["room"] == "kitchen" || arguments["room"] == "hall") && level.is_number_integer() &&
         level >= 0 && level <= 100;
}

class StructuredTest : public ::testing::Test {
 protected:
  struct Server {
    std::unique_ptr<ApiService> service;
    std::shared_ptr<ServingEngine> engine;
  };
  StructuredTest() { set_log_level(LogLevel::off); }
  ~StructuredTest() override {
    for (auto& [drafts, server] : servers_) server.service->stop();
  }
  ApiService& server(int drafts) {
    Server& one = servers_[drafts];
    if (one.service) return *one.service;
    ApiSettings settings;
    settings.model_names = {"glm-5.3"};
    settings.health.ready_within = std::chrono::milliseconds(0);
    settings.tool_call_constraint = mode;
    HttpOptions http;
    http.port = 0;
    http.host = "127.0.0.1";
    one.service = std::make_unique<ApiService>(settings, http, 2);
    one.service->start();
    ServingOptions serving;
    serving.max_model_len = 2048;
    serving.scheduler.max_num_seqs = 8;
    serving.scheduler.max_num_batched_tokens = 96;  // 8 sequences with 8 drafts each are 72 rows
    serving.scheduler.num_speculative_tokens = drafts;
    one.engine = std::make_shared<ServingEngine>(std::make_unique<RandomExecutor>(), tokenizer_, serving,
                                                 one.service->sink());
    ServedModel model;
    model.engine = one.engine;
    model.tokenizer = tokenizer_;
    model.chat_template = ChatTemplate::glm53();
    model.tags = std::make_shared<const OutputTags>(*tokenizer_);
    model.primary_eos = kEndOfText;
    model.vocab_size = kVocab;
    model.eos = {kEndOfText, kUser, kObservation};
    model.grammars = grammars_;
    one.service->set_ready(std::move(model));
    return *one.service;
  }
  OrderedJson post(int drafts, std::string_view path, const OrderedJson& body, int status = 200) {
    const RawResponse response = fetch(server(drafts).http().port(), post_text(path, dump_json(body)));
    EXPECT_EQ(response.status, status) << response.body;
    return OrderedJson::parse(response.body);
  }
  OrderedJson chat(int drafts, const OrderedJson& body, int status = 200) {
    const OrderedJson answer = post(drafts, "/v1/chat/completions", body, status);
    return status == 200 ? answer.at("choices") : answer;
  }
  StreamResult stream(int drafts, OrderedJson body) {
    body["stream"] = true;
    return read_chat_stream(
        fetch(server(drafts).http().port(), post_text("/v1/chat/completions", dump_json(body))).body);
  }
  static OrderedJson hot(int seed) {
    OrderedJson body = user_request("Who?");
    body["temperature"] = 0.5 * (seed % 4);
    body["seed"] = seed;
    body["max_tokens"] = 400;
    body["thinking_token_budget"] = seed % 6;
    return body;
  }

  ToolCallConstraintMode mode = ToolCallConstraintMode::all;
  const std::shared_ptr<const Tokenizer> tokenizer_ = std::make_shared<ByteTokenizer>();
  const std::shared_ptr<GrammarCache> grammars_ =
      std::make_shared<GrammarCache>(std::make_shared<const TokenTable>(
          tokenizer_, std::vector<TokenId>{kEndOfText, kUser, kObservation}, kVocab));
  std::map<int, Server> servers_;
};

OrderedJson person_format() {
  return {{"type", "json_schema"},
          {"json_schema", {{"name", "person"}, {"schema", OrderedJson::parse(kPerson)}}}};
}

TEST_F(StructuredTest, JsonSchemaHoldsWithAndWithoutDrafts) {
  int ended = 0;
  for (int seed = 0; seed < 12; ++seed) {
    OrderedJson body = hot(seed);
    body["response_format"] = person_format();
    const OrderedJson first = chat(0, body)[0];
    const std::string text = first.at("message").at("content").is_null() ? "" : first["message"]["content"];
    for (const int drafts : {0, 3, 8}) {
      const OrderedJson again = chat(drafts, body)[0];
      EXPECT_EQ(again["message"]["content"], first["message"]["content"])
          << "seed " << seed << " drafts " << drafts;
      EXPECT_EQ(again["message"]["reasoning"], first["message"]["reasoning"]);
      EXPECT_EQ(stream(drafts, body).content, text);
    }
    if (first["finish_reason"] != "stop") continue;
    ++ended;
    EXPECT_TRUE(is_person(OrderedJson::parse(text))) << text;
  }
  EXPECT_GE(ended, 9);
}

TEST_F(StructuredTest, DemandedCallsComeAndAreValid) {
  int ended = 0;
  for (int seed = 0; seed < 12; ++seed) {
    OrderedJson body = hot(seed);
    body["tools"] = OrderedJson::parse(kTools);
    const bool named = seed % 3 == 0;
    body["tool_choice"] =
        named ? OrderedJson::parse(R"({"type": "function", "function": {"name": "set_light"}})")
              : OrderedJson("required");
    body["parallel_tool_calls"] = seed % 2 == 0;
    const OrderedJson first = chat(0, body)[0];
    if (first["finish_reason"] == "length") continue;
    ++ended;
    const OrderedJson& calls = first.at("message").at("tool_calls");
    if (named || seed % 2 == 1) {
      EXPECT_EQ(calls.size(), 1U);
    }
    EXPECT_EQ(first["finish_reason"], named ? "stop" : "tool_calls");
    EXPECT_EQ(first["message"]["content"], "");
    for (const int drafts : {0, 3, 8}) {
      const StreamResult again = stream(drafts, body);
      ASSERT_EQ(again.calls.size(), calls.size()) << "seed " << seed << " drafts " << drafts;
      for (size_t i = 0; i < calls.size(); ++i) {
        EXPECT_EQ(again.calls[i].name, calls[i].at("function").at("name"));
        EXPECT_EQ(again.calls[i].arguments, calls[i]["function"]["arguments"]);
        EXPECT_TRUE(is_call(again.calls[i].name, OrderedJson::parse(again.calls[i].arguments)))
            << again.calls[i].arguments;
        if (named) {
          EXPECT_EQ(again.calls[i].name, "set_light");
        }
      }
    }
  }
  EXPECT_GE(ended, 8);
}

TEST_F(StructuredTest, CallsOfAutoAreValidOrFree) {
  for (const ToolCallConstraintMode now : {ToolCallConstraintMode::all, ToolCallConstraintMode::forced}) {
    for (auto& [drafts, one] : servers_) one.service->stop();
    servers_.clear();
    mode = now;
    int calls = 0;
    for (int seed = 0; seed < 8; ++seed) {
      OrderedJson body = hot(seed);
      body["tools"] = OrderedJson::parse(kTools);
      body["logit_bias"] = {{"154843", 5}};
      const StreamResult answer = stream(3, body);
      EXPECT_EQ(chat(0, body)[0]["message"]["content"].is_null(), answer.content.empty());
      if (answer.finish_reason == "length") continue;
      calls += static_cast<int>(answer.calls.size());
      if (now != ToolCallConstraintMode::all) continue;
      for (const auto& call : answer.calls)
        EXPECT_TRUE(is_call(call.name, OrderedJson::parse(call.arguments))) << call.arguments;
    }
    if (now == ToolCallConstraintMode::all) {
      EXPECT_GT(calls, 0);
    }
  }
}

TEST_F(StructuredTest, EveryFieldAndBothEndpoints) {
  const auto one_of = [](std::set<std::string> texts) {
    return [texts = std::move(texts)](const std::string& text) { return texts.contains(text); };
  };
  const auto person = [](const std::string& text) { return is_person(OrderedJson::parse(text)); };
  const auto object = [](const std::string& text) { return OrderedJson::parse(text).is_object(); };
  struct Case {
    const char* field;
    OrderedJson value;
    std::function<bool(const std::string&)> fits;
  };
  const std::vector<Case> cases = {
      {"response_format", {{"type", "json_object"}}, object},
      {"structured_outputs", {{"regex", "(ab|cd){2}"}}, one_of({"abab", "abcd", "cdab", "cdcd"})},
      {"structured_outputs",
       {{"choice", OrderedJson::array({"red", "green", "greenish"})}},
       one_of({"red", "green", "greenish"})},
      {"structured_outputs",
       {{"choice", OrderedJson::array({"a\"b\\", "\n\t"})}},
       one_of({"a\"b\\", "\n\t"})},
      {"structured_outputs", {{"json", kPerson}}, person},
      {"structured_outputs", {{"json_object", true}}, object},
      {"structured_outputs", {{"grammar", "root ::= \"x\" [0-1] \"y\""}}, one_of({"x0y", "x1y"})},
      {"guided_json", OrderedJson::parse(kPerson), person},
      {"guided_regex", "z{3}", one_of({"zzz"})},
      {"guided_choice", OrderedJson::array({"one", "two"}), one_of({"one", "two"})},
      {"guided_grammar", "root ::= \"no\" | \"yes\"", one_of({"no", "yes"})},
      {"json_schema", kPerson, person},
      {"regex", "u?v", one_of({"uv", "v"})},
      {"ebnf", "root ::= \"k\"", one_of({"k"})}};
  int ended = 0;
  for (const Case& one : cases) {
    OrderedJson body = hot(5);
    body[one.field] = one.value;
    const OrderedJson answer = chat(3, body)[0];
    if (answer["finish_reason"] == "stop") {
      EXPECT_TRUE(one.fits(answer["message"]["content"])) << one.field << ": " << answer;
      ++ended;
    }
    OrderedJson text = {{"prompt", "Say"}, {"max_tokens", 400}, {"temperature", 1.5}, {"seed", 2}};
    text[one.field] = one.value;
    const OrderedJson completion = post(8, "/v1/completions", text).at("choices")[0];
    if (completion["finish_reason"] == "stop") {
      EXPECT_TRUE(one.fits(completion["text"])) << one.field << ": " << completion;
    }
  }
  EXPECT_GE(ended, 11);
}

TEST_F(StructuredTest, SeveralChoicesAndToolsBesideAForm) {
  OrderedJson body = hot(3);
  body["n"] = 4;
  body["response_format"] = person_format();
  std::set<std::string> texts;
  for (const OrderedJson& choice : chat(3, body)) {
    if (choice["finish_reason"] != "stop") continue;
    texts.insert(choice["message"]["content"]);
    EXPECT_TRUE(is_person(OrderedJson::parse(*texts.rbegin())));
  }
  EXPECT_GT(texts.size(), 1U);
  body["n"] = 1;
  body["tools"] = OrderedJson::parse(kTools);
  for (int seed = 0; seed < 8; ++seed) {
    body["seed"] = seed;
    const OrderedJson answer = chat(3, body)[0];
    if (answer["finish_reason"] == "stop") {
      EXPECT_TRUE(is_person(OrderedJson::parse(answer["message"]["content"].get<std::string>())));
    }
    if (answer["finish_reason"] != "tool_calls") continue;
    for (const OrderedJson& call : answer["message"]["tool_calls"])
      EXPECT_TRUE(is_call(call["function"]["name"],
                          OrderedJson::parse(call["function"]["arguments"].get<std::string>())));
  }
}

TEST_F(StructuredTest, WhatCannotBeIsRefusedAndHarmsNobody) {
  OrderedJson tool_named = {
      {"tools", OrderedJson::parse(kTools)},
      {"tool_choice", OrderedJson::parse(R"({"type": "function", "function": {"name": "stop"}})")},
      {"response_format", person_format()}};
  const std::pair<OrderedJson, const char*> cases[] = {
      {{{"response_format", {{"type", "json_schema"}}}}, "json_schema object"},
      {{{"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "x"}}}}}},
       "json_schema.schema"},
      {{{"response_format",
         {{"type", "json_schema"}, {"json_schema", {{"schema", {{"not", {{"type", "null"}}}}}}}}}},
       "not cannot be enforced"},
      {{{"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", {{"type", "thing"}}}}}}}},
       "thing"},
      {{{"response_format", {{"type", "xml"}}}}, "is not supported"},
      {{{"structured_outputs", {{"regex", "a(b"}}}}, "structured_outputs.regex"},
      {{{"structured_outputs", {{"regex", "(a{1000}){1000}"}}}}, "too large"},
      {{{"structured_outputs", {{"grammar", "nothing"}}}}, "structured_outputs.grammar"},
      {{{"structured_outputs", {{"grammar", "root ::= other"}}}}, "other"},
      {{{"structured_outputs", {{"choice", OrderedJson::array()}}}}, "not empty"},
      {{{"structured_outputs", {{"choice", OrderedJson::array({5})}}}}, "list of strings"},
      {{{"structured_outputs", {{"regex", "a"}, {"choice", OrderedJson::array({"b"})}}}}, "one form only"},
      {{{"structured_outputs", {{"structural_tag", "{}"}}}}, "not supported"},
      {{{"guided_json", 5}}, "JSON schema"},
      {tool_named, "names a function"}};
  for (const auto& [fields, words] : cases) {
    OrderedJson body = hot(1);
    body.update(fields);
    const OrderedJson error = chat(0, body, 400).at("error");
    EXPECT_NE(error.at("message").get<std::string>().find(words), std::string::npos) << error;
  }
  EXPECT_EQ(chat(0, hot(1)).size(), 1U);
}

/// Rules that leave no token are the client's: 400 with the fields' names, as an event where it is streamed.
TEST_F(StructuredTest, ContradictionsAreRefusedByName) {
  OrderedJson called{{"tools", OrderedJson::parse(kTools)}, {"min_tokens", 399}};
  called["tool_choice"] = OrderedJson::parse(R"({"type": "function", "function": {"name": "stop"}})");
  const std::pair<OrderedJson, const char*> cases[] = {
      {{{"structured_outputs", {{"choice", OrderedJson::array({"a"})}}}, {"min_tokens", 20}},
       "loosen structured_outputs.choice and min_tokens"},
      {{{"structured_outputs", {{"regex", "ab"}}}, {"min_tokens", 20}},
       "loosen structured_outputs.regex and min_tokens"},
      {called, "loosen tool_choice and min_tokens"},
      {{{"allowed_token_ids", {65}}, {"bad_words", {"A"}}}, "loosen allowed_token_ids and bad_words"}};
  for (const auto& [fields, words] : cases) {
    OrderedJson body = hot(0);
    body.update(fields);
    for (const int drafts : {0, 3}) {
      const OrderedJson error = chat(drafts, body, 400).at("error");
      EXPECT_NE(error.at("message").get<std::string>().find(words), std::string::npos) << error;
      EXPECT_EQ(error.at("code"), 400);
      const std::string seen = stream(drafts, body).error;
      EXPECT_NE(seen.find(words), std::string::npos) << seen;
    }
  }
  EXPECT_EQ(chat(0, hot(1)).size(), 1U);
  OrderedJson own{{"input", "q"}, {"min_tokens", 300}, {"temperature", 0}};
  own["text"]["format"] = {{"type", "json_schema"}, {"name", "x"}, {"schema", {{"const", 5}}}};
  const std::string told = dump_json(post(0, "/v1/responses", own, 400));
  EXPECT_NE(told.find("loosen text.format.schema and min_tokens"), std::string::npos) << told;
}

TEST_F(StructuredTest, OffRefusesWhatItCannotPromise) {
  mode = ToolCallConstraintMode::off;
  OrderedJson body = hot(1);
  body["tools"] = OrderedJson::parse(kTools);
  EXPECT_EQ(chat(0, body).size(), 1U);
  body["tool_choice"] = "required";
  const OrderedJson error = chat(0, body, 400).at("error");
  EXPECT_EQ(error.at("param"), "tool_choice");
  EXPECT_NE(error.at("message").get<std::string>().find("--tool-call-constraint"), std::string::npos);
}

}  // namespace
}  // namespace glint
