#include "bench/serve/stream_outcome.h"

#include <gtest/gtest.h>

namespace glint::bench {
namespace {

std::string event(const std::string& data) {
  return "data: " + data + "\n\n";
}

const std::string kRole = event(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})");
const std::string kUsage = event(R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}})");
const std::string kDone = event("[DONE]");

std::string delta(const std::string& text) {
  return event(R"({"choices":[{"index":0,"delta":{"content":")" + text + R"("}}]})");
}

RequestOutcome begun() {
  RequestOutcome outcome;
  outcome.start_s = 100;
  outcome.prompt_tokens = 6;
  return outcome;
}

TEST(StreamListener, TimesOfChunksThatHaveChoices) {
  RequestOutcome outcome = begun();
  StreamListener listener(StreamFormat::chat, ChunkClock::native);
  listener.feed(": ping\n\n", 100.05, outcome);
  listener.feed(kRole, 100.1, outcome);  // the first token, though its text is empty
  listener.feed(delta("a"), 100.2, outcome);
  listener.feed(delta("b") + delta("c"), 100.4, outcome);  // read at once: no time between them
  listener.feed(kUsage + kDone, 100.9, outcome);           // moves no time
  listener.finish(outcome);
  EXPECT_TRUE(outcome.success) << outcome.error;
  EXPECT_NEAR(outcome.ttft_s, 0.1, 1e-9);
  EXPECT_NEAR(outcome.latency_s, 0.4, 1e-9);
  ASSERT_EQ(outcome.itl_s.size(), 3U);
  EXPECT_NEAR(outcome.itl_s[0], 0.1, 1e-9);
  EXPECT_NEAR(outcome.itl_s[1], 0.2, 1e-9);
  EXPECT_EQ(outcome.itl_s[2], 0);
  EXPECT_EQ(outcome.text, "abc");
  EXPECT_EQ(outcome.prompt_tokens, 7);
  EXPECT_EQ(outcome.output_tokens, 5);
}

TEST(StreamListener, CompletionsCutAnywhere) {
  const std::string text =
      event(R"({"choices":[{"text":"ü"}]})") + event(R"({"choices":[{"text":""}]})") + kDone;
  for (size_t size = 1; size < text.size(); ++size) {
    RequestOutcome outcome = begun();
    StreamListener listener(StreamFormat::completions, ChunkClock::native);
    for (size_t at = 0; at < text.size(); at += size) listener.feed(text.substr(at, size), 101, outcome);
    listener.finish(outcome);
    EXPECT_TRUE(outcome.success);
    EXPECT_EQ(outcome.text, "ü");
    EXPECT_EQ(outcome.itl_s.size(), 1U);
    EXPECT_EQ(outcome.output_tokens, 0) << "no usage was told";
    EXPECT_EQ(outcome.prompt_tokens, 6);
  }
}

TEST(StreamListener, CompatTakesItsOwnTime) {
  RequestOutcome outcome = begun();
  StreamListener listener(StreamFormat::chat, ChunkClock::compat);
  listener.feed(kRole + delta("a"), 100.1, outcome);
  listener.finish(outcome);
  EXPECT_TRUE(outcome.success);
  EXPECT_NE(outcome.ttft_s, 100.1 - outcome.start_s) << "not the time of the read";
  EXPECT_GT(outcome.itl_s.at(0), 0);
}

TEST(StreamListener, Failures) {
  const auto error_of = [](const std::string& text) {
    RequestOutcome outcome = begun();
    StreamListener listener(StreamFormat::chat, ChunkClock::native);
    listener.feed(text, 101, outcome);
    listener.finish(outcome);
    EXPECT_FALSE(outcome.success);
    return outcome.error;
  };
  EXPECT_NE(error_of(kUsage + kDone).find("Never received a valid chunk"), std::string::npos);
  EXPECT_NE(error_of(kRole + event(R"({"error":{"message":"engine died"}})")).find("engine died"),
            std::string::npos);
  EXPECT_NE(error_of(event("{not json")).find("no JSON"), std::string::npos);
}

}  // namespace
}  // namespace glint::bench
