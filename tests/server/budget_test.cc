// The shared case of a thinking budget, on a whole server: the real engine on a device that plays a text and
// would never stop thinking, with drafts that are always right, so that whole rounds reach over the budget.
#include <gtest/gtest.h>

#include <fstream>

#include "api_fixture.h"
#include "base/log.h"
#include "byte_tokenizer.h"
#include "engine/serving_engine.h"

namespace glint {
namespace {

constexpr int64_t kVocab = 154880;

/// Says `script` again and again from the first <think> on; behind `close` it ends.
class ThinkingExecutor final : public Executor {
 public:
  ThinkingExecutor(std::vector<TokenId> script, TokenId open, TokenId close)
      : script_(std::move(script)), open_(open), close_(close) {
    config_.vocab_size = kVocab;
    config_.eos_token_id = {kEndOfText, kUser, kObservation};
  }
  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] int64_t pages_total() const override { return 64; }
  [[nodiscard]] int64_t rows_max() const override { return 256; }
  float* execute(const StepDescription& step) override {
    for (size_t i = 0; i < step.tokens.size(); ++i) {
      if (step.tokens[i] == open_ && start_ == 0) start_ = step.positions[i] + 1;
    }
    return play(step, 1);
  }
  float* draft(const DraftDescription& draft) override { return play(draft.step, 2); }

 private:
  float* play(const StepDescription& step, int32_t ahead) {
    logits_.assign(step.logits_rows.size() * kVocab, 0.0F);
    for (size_t i = 0; i < step.logits_rows.size(); ++i) {
      const auto row = static_cast<size_t>(step.logits_rows[i]);
      const auto at = static_cast<size_t>(step.positions[row] + ahead - start_);
      const TokenId next = step.tokens[row] == close_ ? kUser : script_[at % script_.size()];
      logits_[i * kVocab + static_cast<size_t>(next)] = 10;
    }
    return logits_.data();
  }

  std::vector<TokenId> script_;
  TokenId open_, close_;
  ModelConfig config_;
  int32_t start_ = 0;
  std::vector<float> logits_;
};

OrderedJson shared_case(std::string_view id) {
  std::ifstream file(std::string(GLINT_TEST_DATA) + "/text/text-cases.jsonl");
  for (std::string line; std::getline(file, line);) {
    OrderedJson one = OrderedJson::parse(line);
    if (one.at("id") == id) return one;
  }
  throw std::runtime_error("no such case");
}

/// A server whose model says `script`, with so many drafts a step.
struct ThinkingServer {
  ThinkingServer(std::vector<TokenId> script, bool ends_behind_the_reasoning, int64_t drafts)
      : service(settings(), options(), 1) {
    set_log_level(LogLevel::off);
    service.start();
    const auto tokenizer = std::make_shared<ByteTokenizer>();
    const auto tags = std::make_shared<const OutputTags>(*tokenizer);
    ServingOptions serving;
    serving.max_model_len = 1024;
    serving.scheduler.max_num_seqs = 2;
    serving.scheduler.max_num_batched_tokens = 256;
    serving.scheduler.num_speculative_tokens = drafts;
    const TokenId close = ends_behind_the_reasoning ? tags->id(OutputTag::think_close) : -1;
    model.engine = std::make_shared<ServingEngine>(
        std::make_unique<ThinkingExecutor>(std::move(script), tags->id(OutputTag::think_open), close),
        tokenizer, serving, service.sink());
    model.tokenizer = tokenizer;
    model.chat_template = ChatTemplate::glm53();
    model.tags = tags;
    model.primary_eos = kEndOfText;
    model.vocab_size = kVocab;
    model.eos = {kEndOfText, kUser, kObservation};
    service.set_ready(model);
  }
  ~ThinkingServer() { service.stop(); }
  ThinkingServer(const ThinkingServer&) = delete;
  ThinkingServer& operator=(const ThinkingServer&) = delete;

  static ApiSettings settings() {
    ApiSettings settings;
    settings.model_names = {"glm-5.3"};
    settings.health.ready_within = std::chrono::milliseconds(0);
    return settings;
  }
  static HttpOptions options() {
    HttpOptions http;
    http.port = 0;
    http.host = "127.0.0.1";
    return http;
  }
  [[nodiscard]] OrderedJson ask(const char* path, const OrderedJson& body) const {
    const RawResponse response = fetch(service.http().port(), post_text(path, dump_json(body)));
    EXPECT_EQ(response.status, 200) << response.body;
    return OrderedJson::parse(response.body);
  }

  ApiService service;
  ServedModel model;
};

class BudgetTest : public ::testing::TestWithParam<int64_t> {};

/// The case counts words; a token is a byte here.
TEST_P(BudgetTest, EndsTheReasoningAtItsTokenWithAnyNumberOfDrafts) {
  const OrderedJson one = shared_case("reas-020");
  const std::string thought = one.at("expected").at("reasoning");
  ThinkingServer server(ids_of(one.at("raw_output").get<std::string>()), true, GetParam());
  OrderedJson body = user_request();
  body.update({{"temperature", 0}, {"max_tokens", 200}, {"thinking_token_budget", thought.size()}});
  const OrderedJson answer = server.ask("/v1/chat/completions", body);
  const OrderedJson& choice = answer.at("choices").at(0);
  for (const char* key : {"reasoning", "content"})
    EXPECT_EQ(choice.at("message").at(key), one["expected"].at(key)) << key;
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_EQ(choice.at("finish_reason"), one["expected"].at("finish_reason"));
  EXPECT_EQ(answer.at("usage").at("completion_tokens"), thought.size() + 2) << "the two tags";
  if (GetParam() > 0) {
    EXPECT_GT(server.model.engine->stats().drafts.accepted_tokens, thought.size() / 3)
        << "drafts are at work";
  }
}

/// The forced end stands in the place of what the model would have said there: of "i", and of "q".
TEST_P(BudgetTest, CountsWhatIsThoughtLater) {
  const char* const script = "abc</think>de<think>fghijk</think>lm<think>qr<|user|>";
  OrderedJson chat = user_request();
  chat.update({{"temperature", 0}, {"max_tokens", 200}, {"thinking_token_budget", 6}});
  const OrderedJson answer =
      ThinkingServer(ids_of(script), false, GetParam()).ask("/v1/chat/completions", chat);
  const OrderedJson& message = answer.at("choices").at(0).at("message");
  EXPECT_EQ(message.at("reasoning"), "abcfgh");
  EXPECT_EQ(message.at("content"), "dejklmr");
  EXPECT_EQ(answer.at("usage").at("completion_tokens_details").at("reasoning_tokens"), 6);

  OrderedJson messages = user_request();
  messages.update({{"temperature", 0}, {"max_tokens", 200}});
  messages["thinking"] = {{"type", "enabled"}, {"budget_tokens", 3}};
  const OrderedJson told = ThinkingServer(ids_of(script), false, GetParam()).ask("/v1/messages", messages);
  EXPECT_EQ(told.at("content").at(0).at("thinking"), "abc") << told;
}

INSTANTIATE_TEST_SUITE_P(Drafts, BudgetTest, ::testing::Values(0, 1, 5, 8));

}  // namespace
}  // namespace glint
