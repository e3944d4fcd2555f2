#include "api_fixture.h"

#include <random>

#include "base/log.h"
#include "byte_tokenizer.h"

namespace glint {

namespace {

void add_call(StreamResult& result, const OrderedJson& call) {
  const auto index = call.at("index").get<size_t>();
  const OrderedJson& function = call.at("function");
  if (call.contains("id")) {
    EXPECT_EQ(index, result.calls.size()) << "calls are numbered without gaps";
    EXPECT_EQ(call.at("type"), "function");
    result.calls.push_back({call.at("id"), function.at("name"), ""});
  } else {
    EXPECT_FALSE(function.contains("name")) << "the name comes once";
  }
  ASSERT_LT(index, result.calls.size());
  result.calls[index].arguments += function.at("arguments").get<std::string>();
}

void add_choice(StreamResult& result, const OrderedJson& choice) {
  const OrderedJson& delta = choice.at("delta");
  if (delta.contains("reasoning")) result.reasoning += delta["reasoning"].get<std::string>();
  if (delta.contains("content")) result.content += delta["content"].get<std::string>();
  if (delta.contains("tool_calls")) {
    for (const OrderedJson& call : delta["tool_calls"]) add_call(result, call);
  }
  if (!choice.at("finish_reason").is_null()) {
    EXPECT_TRUE(result.finish_reason.empty()) << "one finish chunk";
    EXPECT_TRUE(delta.empty()) << "nothing beside the finish";
    result.finish_reason = choice["finish_reason"];
    result.stop_reason = choice.at("stop_reason");
  }
}

}  // namespace

StreamResult read_chat_stream(std::string_view sse_text) {
  StreamResult result;
  for (const std::string& event : sse_events(sse_text)) {
    EXPECT_FALSE(result.done) << "nothing behind [DONE]";
    if (event == "[DONE]") {
      result.done = true;
      continue;
    }
    OrderedJson chunk = OrderedJson::parse(event);
    if (chunk.contains("error")) {
      result.error = chunk["error"].at("message");
      continue;
    }
    EXPECT_EQ(chunk.at("object"), "chat.completion.chunk");
    for (const OrderedJson& choice : chunk.at("choices")) add_choice(result, choice);
    if (chunk.contains("usage")) result.usage = chunk["usage"];
    result.chunks.push_back(std::move(chunk));
  }
  return result;
}

OrderedJson user_request(std::string_view text) {
  return {{"messages", OrderedJson::array({{{"role", "user"}, {"content", text}}})}};
}

ApiTest::ApiTest() : tokenizer(std::make_shared<ByteTokenizer>()) {
  set_log_level(LogLevel::off);
  settings.model_names = {"glm-5.3"};
  settings.model_root = "/models/glm";
  settings.health.ready_within = std::chrono::milliseconds(0);  // scripted engines get no probes
  http.host = "127.0.0.1";
  http.port = 0;
}

ApiTest::~ApiTest() {
  if (service) service->stop();
  engine.reset();
}

void ApiTest::use_grammars() {
  grammars = std::make_shared<GrammarCache>(std::make_shared<const TokenTable>(
      tokenizer, std::vector<TokenId>{kEndOfText, kUser, kObservation}, 154880));
}

std::string walk_constraint(const SamplingParams& sampling, uint32_t seed, int tokens) {
  if (!sampling.constraint) return "free";
  std::minstd_rand random(seed);
  std::string walked;
  for (int i = 0; i < tokens; ++i) {
    std::vector<TokenId> ids;
    const std::span<const uint32_t> mask = sampling.constraint->allowed();
    for (size_t bit = 0; bit < mask.size() * 32; ++bit) {
      if ((mask[bit / 32] >> (bit % 32) & 1U) != 0) ids.push_back(static_cast<TokenId>(bit));
    }
    if (ids.empty()) return walked + (mask.empty() ? " anything" : " nothing");
    const TokenId token = ids[random() % ids.size()];
    walked += cat(" ", token, " of ", ids.size());
    if (token == kEndOfText || token == kUser || token == kObservation) break;
    sampling.constraint->push(token);
  }
  return walked;
}

void ApiTest::expect_masks_of_chat(const char* what, const std::function<void()>& own,
                                   const OrderedJson& twin, bool constrained) {
  for (const uint32_t seed : {1U, 2U, 3U}) {
    own();
    const SamplingParams here = engine->submitted().back().sampling;
    ASSERT_EQ(chat(twin).status, 200) << what;
    const SamplingParams there = engine->submitted().back().sampling;
    const std::string walked = walk_constraint(here, seed);
    EXPECT_EQ(walked, walk_constraint(there, seed)) << what;
    EXPECT_EQ(walked != "free", constrained) << what;
    EXPECT_EQ(here.reasoning.ends, there.reasoning.ends) << what;
    EXPECT_EQ(here.reasoning.never, there.reasoning.never) << what;
  }
}

void ApiTest::start(bool ready) {
  service = std::make_unique<ApiService>(settings, http, 2);
  service->start();
  engine = std::make_shared<FakeEngine>(service->sink(), tokenizer);
  if (automatic_steps) engine->run(std::chrono::microseconds(200));
  if (ready) make_ready();
}

void ApiTest::make_ready() {
  ServedModel model;
  model.engine = engine;
  model.tokenizer = tokenizer;
  model.chat_template = ChatTemplate::glm53();
  model.tags = std::make_shared<const OutputTags>(*tokenizer);
  model.primary_eos = kEndOfText;
  model.vocab_size = 154880;
  model.eos = {kEndOfText, kUser, kObservation};
  model.grammars = grammars;
  model.defaults = defaults;
  service->set_ready(std::move(model));
}

RawResponse ApiTest::post(std::string_view path, const OrderedJson& body) const {
  return fetch(port(), post_text(path, dump_json(body)));
}

RawResponse ApiTest::chat(OrderedJson body) const {
  return post("/v1/chat/completions", body);
}

StreamResult ApiTest::chat_stream(OrderedJson body) const {
  body["stream"] = true;
  const RawResponse response = post("/v1/chat/completions", body);
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream; charset=utf-8");
  return read_chat_stream(response.body);
}

}  // namespace glint
