// Every tool, reasoning and stream case of the text cases, in every way of cutting the answer.
#include <gtest/gtest.h>

#include <set>

#include "text_cases.h"

namespace glint::test {
namespace {

/// Cases of the API issue: other endpoints, and fields that are refused until then.
bool is_later(const OrderedJson& line) {
  return line.contains("endpoint") || line["request"].contains("thinking_token_budget");
}

std::string whole_text(const OrderedJson& line) {
  if (line.contains("raw_output")) return line["raw_output"].get<std::string>();
  std::string out;
  for (const OrderedJson& chunk : line["chunks"]) out += chunk.get<std::string>();
  return out;
}

OrderedJson text_or_null(const std::optional<std::string>& text) {
  return text ? OrderedJson(*text) : OrderedJson();
}

void expect_calls(const OrderedJson& line, const Collected& got) {
  const OrderedJson& expected = line["expected"]["tool_calls"];
  ASSERT_EQ(got.result.tool_calls.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const OutputToolCall& call = got.result.tool_calls[i];
    EXPECT_EQ(call.name, expected[i]["name"].get<std::string>());
    if (expected[i].contains("arguments")) {
      EXPECT_EQ(Json(parse_python_json(call.arguments, "arguments")), Json(expected[i]["arguments"]));
    }
  }
  if (line.contains("arguments_text")) {
    EXPECT_EQ(got.result.tool_calls[0].arguments, line["arguments_text"].get<std::string>());
    EXPECT_EQ(got.arguments(0), line["arguments_text"].get<std::string>());
  }
  if (line["expected"].contains("arguments_concat")) {
    EXPECT_EQ(got.arguments(0), line["expected"]["arguments_concat"].get<std::string>());
  }
  for (size_t i = 0; i < line["expected"].value("arguments_concat_each", OrderedJson::array()).size(); ++i) {
    EXPECT_EQ(got.arguments(static_cast<int32_t>(i)),
              line["expected"]["arguments_concat_each"][i].get<std::string>());
  }
}

void expect_result(const OrderedJson& line, const Collected& got) {
  const OrderedJson& expected = line["expected"];
  if (expected.contains("reasoning")) {
    EXPECT_EQ(text_or_null(got.result.reasoning), expected["reasoning"]);
  }
  if (expected.contains("content")) {
    EXPECT_EQ(text_or_null(got.result.content), expected["content"]);
  }
  if (expected.contains("finish_reason")) {
    EXPECT_EQ(got.finish.finish_reason, expected["finish_reason"]);
  }
  if (expected.contains("stop_reason")) {
    EXPECT_EQ(std::get<std::string>(got.finish.stop_reason), expected["stop_reason"]);
  }
  if (expected.contains("tool_calls")) expect_calls(line, got);
  if (line.contains("usage")) {
    EXPECT_GT(got.reasoning_tokens, 0);
  }
}

/// What clients rely on while the answer streams.
void expect_invariants(const OrderedJson& line, const Collected& got) {
  EXPECT_EQ(got.text(OutputDelta::Kind::reasoning), got.result.reasoning.value_or(""));
  EXPECT_EQ(got.text(OutputDelta::Kind::content), got.result.content.value_or(""));
  std::set<int32_t> opened;
  for (const auto& step : got.steps) {
    for (const OutputDelta& delta : step) {
      if (delta.kind == OutputDelta::Kind::call_open) {
        EXPECT_EQ(delta.index, static_cast<int32_t>(opened.size()));
        EXPECT_TRUE(opened.insert(delta.index).second);
        EXPECT_EQ(delta.id, got.result.tool_calls[static_cast<size_t>(delta.index)].id);
        EXPECT_EQ(delta.name, got.result.tool_calls[static_cast<size_t>(delta.index)].name);
        continue;
      }
      EXPECT_FALSE(delta.text.empty());
      if (delta.kind == OutputDelta::Kind::call_arguments) {
        EXPECT_TRUE(opened.contains(delta.index));
      }
      if (delta.kind == OutputDelta::Kind::content && !line.contains("literal_tags")) {
        for (size_t tag = 0; tag < kOutputTags; ++tag) {
          EXPECT_EQ(delta.text.find(tag_text(static_cast<OutputTag>(tag))), std::string::npos);
        }
      }
    }
  }
  EXPECT_EQ(opened.size(), got.result.tool_calls.size());
  for (size_t i = 0; i < got.result.tool_calls.size(); ++i) {
    const std::string text = got.arguments(static_cast<int32_t>(i));
    if (line.value("engine_finish", "stop") == "length" && i + 1 == got.result.tool_calls.size()) continue;
    EXPECT_EQ(Json(parse_python_json(text, "deltas")),
              Json(parse_python_json(got.result.tool_calls[i].arguments, "arguments")));
  }
}

/// The cases of this issue.
std::vector<OrderedJson> output_cases() {
  std::vector<OrderedJson> out;
  for (OrderedJson& line : text_cases()) {
    const std::string kind = line["kind"].get<std::string>();
    const bool is_answer = kind == "tool" || kind == "reasoning" || kind == "stream";
    if (is_answer && !is_later(line)) out.push_back(std::move(line));
  }
  return out;
}

/// Pieces of one character for seed 0, of 1 to 6 otherwise; groups of 1 to `group_max` tokens, or all for 0.
void check(const OrderedJson& line, unsigned seed, size_t group_max) {
  SCOPED_TRACE(testing::Message() << line["id"] << " seed " << seed << " groups " << group_max);
  std::mt19937 random(seed);
  const auto size_to = [&random](size_t most) { return 1 + random() % most; };
  const auto tokenizer = std::make_shared<TagTokenizer>();
  const auto tokens = cut(*tokenizer, whole_text(line), line.contains("literal_tags"),
                          [&] { return seed == 0 ? size_t{1} : size_to(6); });
  const Collected got = run_stream(tokenizer, tokens, options_of(line["request"]), end_of(line),
                                   [&] { return group_max == 0 ? tokens.size() : size_to(group_max); });
  expect_result(line, got);
  expect_invariants(line, got);
}

TEST(OutputCases, Whole) {
  for (const OrderedJson& line : output_cases()) check(line, 0, 0);
}

TEST(OutputCases, TokenByToken) {
  for (const OrderedJson& line : output_cases()) {
    for (unsigned seed = 0; seed < 8; ++seed) check(line, seed, 1);
  }
}

TEST(OutputCases, RandomGroups) {
  for (const OrderedJson& line : output_cases()) {
    for (unsigned seed = 1; seed <= 64; ++seed) check(line, seed, 6);
  }
}

TEST(OutputCases, EveryTwoPieceSplit) {
  for (const OrderedJson& line : output_cases()) {
    SCOPED_TRACE(line["id"]);
    const auto tokenizer = std::make_shared<TagTokenizer>();
    const auto tokens =
        cut(*tokenizer, whole_text(line), line.contains("literal_tags"), [] { return size_t{1}; });
    for (size_t first = 1; first < tokens.size(); ++first) {
      size_t group = 0;
      const Collected got = run_stream(tokenizer, tokens, options_of(line["request"]), end_of(line),
                                       [&] { return group++ == 0 ? first : tokens.size(); });
      expect_result(line, got);
      expect_invariants(line, got);
    }
  }
}

/// Tokens of the chunks. One may end inside a tag; the tag is one token all the same and comes with the next
/// chunk.
std::vector<TokenId> chunk_tokens(TagTokenizer& tokenizer, const OrderedJson& chunks) {
  std::vector<TokenId> tokens;
  std::string held;
  const auto take = [&](std::string_view text) {
    for (const TokenId token : cut(tokenizer, text, false, [] { return size_t{1000}; }))
      tokens.push_back(token);
  };
  for (const OrderedJson& chunk : chunks) {
    held += chunk.get<std::string>();
    const size_t open = held.rfind('<');
    const bool unfinished = open != std::string::npos && held.find('>', open) == std::string::npos;
    const size_t ready = unfinished ? open : held.size();
    take(std::string_view(held).substr(0, ready));
    held.erase(0, ready);
  }
  take(held);
  return tokens;
}

TEST(OutputCases, ChunksAsGiven) {
  for (const OrderedJson& line : output_cases()) {
    if (!line.contains("chunks")) continue;
    SCOPED_TRACE(line["id"]);
    const auto tokenizer = std::make_shared<TagTokenizer>();
    const auto tokens = chunk_tokens(*tokenizer, line["chunks"]);
    const Collected got =
        run_stream(tokenizer, tokens, options_of(line["request"]), end_of(line), [] { return size_t{1}; });
    expect_result(line, got);
    expect_invariants(line, got);
  }
}

TEST(OutputCases, AreAllThere) {
  size_t answers = 0;
  size_t later = 0;
  for (const OrderedJson& line : text_cases()) {
    const std::string kind = line["kind"].get<std::string>();
    if (kind != "tool" && kind != "reasoning" && kind != "stream") continue;
    ++answers;
    later += is_later(line) ? 1 : 0;
  }
  EXPECT_EQ(answers, 94U);
  EXPECT_EQ(later, 3U);
}

}  // namespace
}  // namespace glint::test
