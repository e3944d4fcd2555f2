// The stream around the parser: characters, stop reasons, counts, chunks.
#include "text/output_stream.h"

#include <gtest/gtest.h>

#include "text_cases.h"

namespace glint::test {
namespace {

struct Harness {
  std::shared_ptr<TagTokenizer> tokenizer = std::make_shared<TagTokenizer>();
  OutputStreamOptions options;

  [[nodiscard]] TokenId id(std::string_view tag) const { return *tokenizer->id_of(tag); }
  [[nodiscard]] Collected run(const std::vector<TokenId>& tokens, const StreamEnd& end) const {
    return run_stream(tokenizer, tokens, options, end, [] { return 1; });
  }
};

TEST(OutputStream, NeverSendsHalfACharacter) {
  Harness harness;
  const std::vector<TokenId> tokens = {harness.tokenizer->piece("a\xF0\x9F"),
                                       harness.tokenizer->piece("\x98\x80"
                                                                "b"),
                                       harness.id("</think>"), harness.tokenizer->piece("\xC3")};
  const Collected got = harness.run(tokens, {});
  EXPECT_EQ(got.steps[0][0].text, "a");
  EXPECT_EQ(got.result.reasoning, "a😀b");
  EXPECT_FALSE(got.result.content);  // what is unfinished at the end is dropped
}

TEST(OutputStream, AnUnfinishedCharacterInFrontOfATagIsReplaced) {
  Harness harness;
  const std::vector<TokenId> tokens = {harness.tokenizer->piece("a\xC3"), harness.id("</think>"),
                                       harness.tokenizer->piece("\xE4\xB8"), harness.id("<|user|>"),
                                       harness.tokenizer->piece("c")};
  harness.options.skip_special_tokens = false;
  const Collected got = harness.run(tokens, {});
  EXPECT_EQ(got.result.reasoning, "a\uFFFD");
  EXPECT_EQ(got.result.content, "\uFFFDc");
}

TEST(OutputStream, StopReasons) {
  Harness harness;
  const TokenId end_of_text = harness.id("<|endoftext|>");
  const TokenId user = harness.id("<|user|>");
  harness.options.primary_eos = end_of_text;
  const std::vector<TokenId> tokens = {harness.tokenizer->piece("a")};
  const auto finish = [&](const StreamEnd& end) { return harness.run(tokens, end).finish; };
  EXPECT_TRUE(
      std::holds_alternative<std::monostate>(finish({StreamEnd::Reason::stop, end_of_text}).stop_reason));
  EXPECT_EQ(std::get<TokenId>(finish({StreamEnd::Reason::stop, user}).stop_reason), user);
  EXPECT_EQ(finish({StreamEnd::Reason::length, {}}).finish_reason, "length");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(finish({StreamEnd::Reason::length, {}}).stop_reason));
  EXPECT_EQ(finish({StreamEnd::Reason::abort, {}}).finish_reason, "abort");
  EXPECT_EQ(finish({StreamEnd::Reason::error, {}}).finish_reason, "error");
}

TEST(OutputStream, AStopTokensTextIsKeptOnlyOnDemand) {
  Harness harness;
  const TokenId stop = harness.tokenizer->piece("END");
  const std::vector<TokenId> tokens = {harness.id("</think>"), harness.tokenizer->piece("a")};
  EXPECT_EQ(harness.run(tokens, {StreamEnd::Reason::stop, stop}).result.content, "a");
  harness.options.include_stop_str_in_output = true;
  EXPECT_EQ(harness.run(tokens, {StreamEnd::Reason::stop, stop}).result.content, "aEND");
}

TEST(OutputStream, TagsInStopStrings) {
  Harness harness;
  const std::vector<TokenId> tokens = {harness.tokenizer->piece("a"), harness.id("</think>"),
                                       harness.tokenizer->piece("b")};
  const auto result = [&](const std::string& stop, bool include) {
    harness.options.stop = std::make_shared<StopStrings>(std::vector<std::string>{stop});
    harness.options.include_stop_str_in_output = include;
    const Collected got = harness.run(tokens, {});
    EXPECT_EQ(std::get<std::string>(got.finish.stop_reason), stop);
    return got.result.reasoning.value_or("") + "|" + got.result.content.value_or("");
  };
  EXPECT_EQ(result("</think>", false), "a|");
  EXPECT_EQ(result("</think>b", true), "a|b");
  EXPECT_EQ(result("think>b", false), "a|");  // a part of a tag is never shown, and does nothing
  EXPECT_EQ(result(">b", true), "a|b");
  EXPECT_EQ(result("a<", true), "a|");
}

TEST(OutputStream, CountsReasoningTokens) {
  Harness harness;
  const auto piece = [&](std::string_view text) { return harness.tokenizer->piece(text); };
  std::vector<TokenId> tokens = {
      harness.id("<think>"),  piece("a"), piece("\xC3"), piece("\xBC"), harness.id("<|user|>"),
      harness.id("</think>"), piece("b")};
  EXPECT_EQ(harness.run(tokens, {}).reasoning_tokens, 3);
  harness.options.stop = std::make_shared<StopStrings>(std::vector<std::string>{"ST"});
  tokens = {piece("a"), piece("S"), piece("x"), piece("S"), piece("T"), piece("c")};
  EXPECT_EQ(harness.run(tokens, {}).reasoning_tokens, 5);
  harness.options.stop = std::make_shared<StopStrings>(std::vector<std::string>{"a</think>b"});
  tokens = {piece("a"), harness.id("</think>"), piece("b"), piece("c")};
  EXPECT_EQ(harness.run(tokens, {}).reasoning_tokens, 1);
}

TEST(OutputStream, TextModeShowsEverything) {
  Harness harness;
  harness.options.mode = OutputMode::text;
  const std::vector<TokenId> tokens = {harness.tokenizer->piece(" a"), harness.id("</think>"),
                                       harness.id("<|user|>"), harness.id("<tool_call>"),
                                       harness.tokenizer->piece("b \n")};
  EXPECT_EQ(harness.run(tokens, {}).result.content, " a</think><tool_call>b \n");
  harness.options.skip_special_tokens = false;
  const Collected got = harness.run(tokens, {});
  EXPECT_EQ(got.text(OutputDelta::Kind::content), " a</think><|user|><tool_call>b \n");
  EXPECT_EQ(got.finish.finish_reason, "stop");
  EXPECT_EQ(harness.run({}, {}).result.content, "");
}

TEST(OutputStream, MergesAStepIntoOneChunk) {
  Harness harness;
  harness.options = options_of(parse_python_json(R"({"tools": [{"function": {"name": "f"}}]})", "tools"));
  OutputStream stream(harness.tokenizer, std::make_shared<OutputTags>(*harness.tokenizer), harness.options);
  const auto tokens = cut(*harness.tokenizer,
                          "r</think>c<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value></"
                          "tool_call><tool_call>f</tool_call>d",
                          false, [] { return size_t{9}; });
  const OutputChunk chunk = merge_deltas(stream.push(tokens));
  EXPECT_EQ(chunk.reasoning, "r");
  EXPECT_EQ(chunk.content, "cd");
  ASSERT_EQ(chunk.calls.size(), 2U);
  EXPECT_TRUE(chunk.calls[0].opens);
  EXPECT_EQ(chunk.calls[0].id, "call-0");
  EXPECT_EQ(chunk.calls[0].arguments, R"({"a": "x"})");
  EXPECT_EQ(chunk.calls[1].index, 1);
  EXPECT_EQ(chunk.calls[1].arguments, "{}");
  EXPECT_TRUE(merge_deltas({}).empty());
}

TEST(OutputTags, MustBeAddedTokens) {
  class NoTags final : public Tokenizer {
   public:
    std::vector<TokenId> encode(std::string_view, bool) const override { return {}; }
    std::string decode(std::span<const TokenId>, bool) const override { return {}; }
    std::string_view token_bytes(TokenId) const override { return {}; }
    bool is_special(TokenId) const override { return false; }
    bool is_added(TokenId) const override { return false; }
    std::optional<TokenId> id_of(std::string_view content) const override {
      return content == "<think>" ? std::nullopt : std::optional<TokenId>(1);
    }
    TokenId size() const override { return 2; }
    bool exists(TokenId) const override { return true; }
  };
  try {
    OutputTags{NoTags()};
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("<think>"), std::string::npos);
  }
}

}  // namespace
}  // namespace glint::test
