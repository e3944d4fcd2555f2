// Stop strings against a plain search, in the engine's matcher and in the output stream.
#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include "text_cases.h"

namespace glint::test {
namespace {

struct Expected {
  size_t token = 0;    // that completes the match
  std::string string;  // the match
  std::string before;  // text in front of it
};

/// The definition, by brute force: the first character at whose end a stop string ends.
std::optional<Expected> search(const std::vector<std::string>& pieces, const std::vector<std::string>& stop,
                               size_t min_tokens) {
  std::string text;
  for (size_t token = 0; token < pieces.size(); ++token) {
    for (const char byte : pieces[token]) {
      text += byte;
      for (const std::string& string : stop) {
        if (token >= min_tokens && text.ends_with(string)) {
          return Expected{token, string, text.substr(0, text.size() - string.size())};
        }
      }
    }
  }
  return {};
}

TEST(StopStrings, EqualsPlainSearch) {
  std::mt19937 random(5);
  const std::vector<std::string> alphabet = {"a", "b", "ab", "ü", "é", "\n", "😀", "bab"};
  const auto word = [&](size_t most) {
    std::string out;
    for (size_t i = 0, n = 1 + random() % most; i < n; ++i) out += alphabet[random() % alphabet.size()];
    return out;
  };
  int matches = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::string> stop;
    for (size_t i = 0, n = 1 + random() % 4; i < n; ++i) stop.push_back(word(4));
    std::vector<std::string> pieces;
    for (size_t i = 0, n = 1 + random() % 12; i < n; ++i) pieces.push_back(word(3));
    const size_t min_tokens = random() % 4;
    const auto expected = search(pieces, stop, min_tokens);
    matches += expected ? 1 : 0;

    const auto tokenizer = std::make_shared<TagTokenizer>();
    std::vector<TokenId> tokens;
    for (const std::string& piece : pieces) tokens.push_back(tokenizer->piece(piece));
    const auto strings = std::make_shared<StopStrings>(stop);
    StopMatcher matcher(tokenizer, strings, true, static_cast<int64_t>(min_tokens));
    std::optional<std::string> match;
    size_t at = 0;
    while (at < tokens.size() && !(match = matcher.push(tokens[at]))) ++at;
    ASSERT_EQ(match.has_value(), expected.has_value());
    if (expected) {
      EXPECT_EQ(*match, expected->string);
      EXPECT_EQ(at, expected->token);
    }

    for (const bool include : {false, true}) {
      OutputStreamOptions options;
      options.mode = OutputMode::text;
      options.stop = strings;
      options.include_stop_str_in_output = include;
      options.min_tokens = static_cast<int64_t>(min_tokens);
      const Collected got = run_stream(tokenizer, tokens, options, {StreamEnd::Reason::length, {}},
                                       [&] { return 1 + random() % 3; });
      std::string whole;
      for (const std::string& piece : pieces) whole += piece;
      EXPECT_EQ(got.finish.finish_reason, expected ? "stop" : "length");
      EXPECT_EQ(got.text(OutputDelta::Kind::content),
                !expected ? whole : expected->before + (include ? expected->string : ""));
      EXPECT_EQ(*got.result.content, got.text(OutputDelta::Kind::content));
    }
  }
  EXPECT_GT(matches, 1000);
}

TEST(StopStrings, HoldsBackNoMoreThanMayStillMatch) {
  const auto tokenizer = std::make_shared<TagTokenizer>();
  OutputStreamOptions options;
  options.mode = OutputMode::text;
  options.stop = std::make_shared<StopStrings>(std::vector<std::string>{"STOP", "üx"});
  OutputStream stream(tokenizer, nullptr, options);
  const auto push = [&](std::string_view piece) {
    const auto deltas = stream.push(tokenizer->piece(piece));
    return deltas.empty() ? std::string() : deltas[0].text;
  };
  EXPECT_EQ(push("Hello"), "Hello");
  EXPECT_EQ(push(" ST"), " ");
  EXPECT_EQ(push("O"), "");
  EXPECT_EQ(push("ne ü"), "STOne ");
  EXPECT_EQ(push("S"), "ü");
  const auto rest = stream.finish({StreamEnd::Reason::length, {}});
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].text, "S");
}

TEST(StopStrings, RefusesEmptyAndInvalidStrings) {
  EXPECT_THROW(StopStrings(std::vector<std::string>{""}), Error);
  EXPECT_THROW(StopStrings(std::vector<std::string>{"a", "\xC3"}), Error);
  EXPECT_TRUE(StopStrings(std::vector<std::string>{}).empty());
}

TEST(StopStrings, LongStringsCostTheirLength) {
  std::string string(100000, 'a');
  const auto strings = std::make_shared<StopStrings>(std::vector<std::string>{string + "b", string + "c"});
  const auto tokenizer = std::make_shared<TagTokenizer>();
  StopMatcher matcher(tokenizer, strings, true);
  const TokenId run = tokenizer->piece(std::string(100, 'a'));
  for (int i = 0; i < 20000; ++i) ASSERT_FALSE(matcher.push(run));
  EXPECT_EQ(matcher.push(tokenizer->piece("c")), string + "c");
}

}  // namespace
}  // namespace glint::test
