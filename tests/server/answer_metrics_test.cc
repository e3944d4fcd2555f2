// The metrics that answers carry of themselves: exact from given times, and where they stand.
#include "server/answer_metrics.h"

#include <gtest/gtest.h>

#include "api_fixture.h"
#include "byte_tokenizer.h"

namespace glint {
namespace {

using Ms = std::chrono::milliseconds;

StepOutput output_at(Ms at, size_t tokens, int32_t drafted = 0) {
  StepOutput output;
  output.tokens.assign(tokens, 7);
  output.drafted = drafted;
  output.time = EngineClock::time_point(at);
  output.times.submitted = EngineClock::time_point(Ms(1000));
  output.times.started = EngineClock::time_point(Ms(1500));
  return output;
}

OrderedJson timings(const std::vector<StepOutput>& outputs) {
  ServingMetrics metrics;
  RequestMeter meter(metrics, EngineClock::time_point(Ms(900)), 5, 100);
  for (const StepOutput& output : outputs) meter.step(output);
  return answer_metrics(meter, {}, {.timings = true}, 0);
}

TEST(AnswerMetrics, Timings) {
  // Queued at 1 s, started at 1.5 s, first token at 2 s, the tenth and last one at 3 s.
  const OrderedJson seen = timings({output_at(Ms(2000), 1), output_at(Ms(2400), 4), output_at(Ms(3000), 5)});
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_DOUBLE_EQ(seen.at("time_to_first_token_ms"), 500.0);
  EXPECT_DOUBLE_EQ(seen.at("generation_time_ms"), 1000.0);
  EXPECT_DOUBLE_EQ(seen.at("queue_time_ms"), 500.0);
  EXPECT_DOUBLE_EQ(seen.at("mean_itl_ms"), 1000.0 / 9);
  EXPECT_DOUBLE_EQ(seen.at("tokens_per_second"), 10.0 / 1.5);
}

TEST(AnswerMetrics, TooLittleIsNull) {
  const OrderedJson one = timings({output_at(Ms(2000), 1)});
  EXPECT_TRUE(one.at("mean_itl_ms").is_null());
  EXPECT_DOUBLE_EQ(one.at("generation_time_ms"), 0.0);
  EXPECT_DOUBLE_EQ(one.at("tokens_per_second"), 1.0 / 0.5);
  const OrderedJson none = timings({});
  EXPECT_EQ(none.size(), 5U);
  for (const auto& [name, value] : none.items()) EXPECT_TRUE(value.is_null()) << name;
}

TEST(AnswerMetrics, Drafts) {
  DraftTally tally;
  // The prompt's step has no drafts; then 5 drafts of which 5, 0 and 2 are confirmed; then 3 of which one.
  for (const auto& [tokens, drafted] : {std::pair<size_t, int32_t>{1, 0}, {6, 5}, {1, 5}, {3, 5}, {2, 3}})
    tally.step(output_at(Ms(2000), tokens, drafted), DraftMetrics::detailed);
  OrderedJson wanted{{"mean_acceptance_length", 3.0},
                     {"draft_acceptance_rate", 8.0 / 18.0},
                     {"acceptance_histogram", {{"0", 1}, {"1", 1}, {"2", 1}, {"5", 1}}},
                     {"num_spec_steps", 4},
                     {"num_accepted_draft_tokens", 8},
                     {"num_draft_tokens", 18},
                     {"num_spec_tokens", 5}};
  EXPECT_EQ(tally.json(DraftMetrics::summary, 5), wanted);
  wanted["per_step_accepted"] = {5, 0, 2, 1};
  wanted["per_step_drafted"] = {5, 5, 5, 3};
  EXPECT_EQ(tally.json(DraftMetrics::detailed, 5), wanted);
  EXPECT_TRUE(DraftTally().json(DraftMetrics::summary, 5).at("mean_acceptance_length").is_null());
}

class AnswerMetricsApi : public ApiTest {
 protected:
  [[nodiscard]] OrderedJson answer(const char* path, const OrderedJson& body) const {
    const RawResponse response = post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return OrderedJson::parse(response.body);
  }
};

TEST_F(AnswerMetricsApi, WholeAnswers) {
  settings.answer_metrics = {.timings = true, .drafts = DraftMetrics::summary};
  start();
  engine->script = [](const EngineRequest& /*request*/) {
    FakeScript script = script_of("</think>abc");
    script.drafts = 2;
    return script;
  };
  OrderedJson body = user_request();
  const OrderedJson metrics = answer("/v1/chat/completions", body).at("metrics");
  EXPECT_GE(metrics.at("time_to_first_token_ms"), 0.0);
  EXPECT_GT(metrics.at("tokens_per_second"), 0.0);
  // Four steps; the ending token comes with the last one's.
  EXPECT_EQ(metrics.at("speculative_decoding").at("num_draft_tokens"), 8);
  EXPECT_EQ(metrics.at("speculative_decoding").at("num_accepted_draft_tokens"), 1);
  EXPECT_TRUE(answer("/v1/completions", {{"prompt", "Hi"}}).at("metrics").is_object());
  EXPECT_TRUE(answer("/v1/responses", {{"input", "Hi"}}).at("metrics").is_object());
  body["n"] = 2;
  EXPECT_TRUE(answer("/v1/chat/completions", body).at("metrics").is_null())
      << "two sequences have no one time";
}

TEST_F(AnswerMetricsApi, TheLastChunkOfAStream) {
  settings.answer_metrics.timings = true;
  start();
  OrderedJson body = user_request();
  body["stream_options"] = {{"include_usage", true}, {"continuous_usage_stats", true}};
  std::vector<OrderedJson> chunks = chat_stream(body).chunks;
  ASSERT_GT(chunks.size(), 2U);
  EXPECT_TRUE(chunks.back().at("choices").empty());
  EXPECT_TRUE(chunks.back().at("metrics").is_object());
  chunks.pop_back();
  for (const OrderedJson& chunk : chunks) EXPECT_FALSE(chunk.contains("metrics"));
  body.update({{"n", 2}, {"stream", true}});
  const std::string two = post("/v1/chat/completions", body).body;
  EXPECT_NE(two.find("[DONE]"), std::string::npos);
  EXPECT_EQ(two.find("metrics"), std::string::npos);
}

TEST_F(AnswerMetricsApi, WithoutTheFlag) {
  start();
  EXPECT_FALSE(answer("/v1/chat/completions", user_request()).contains("metrics"));
  EXPECT_FALSE(answer("/v1/responses", {{"input", "Hi"}}).contains("metrics"));
}

}  // namespace
}  // namespace glint
