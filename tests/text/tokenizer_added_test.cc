// Added tokens: the leftmost-longest match against its definition, and each flag (expected values from the
// library).
#include <gtest/gtest.h>

#include <random>

#include "text/added_tokens.h"

namespace glint {
namespace {

AddedToken token(TokenId id, std::string content) {
  AddedToken out;
  out.id = id;
  out.content = std::move(content);
  return out;
}

/// "text|<7>|text": texts as they are, tokens by id.
std::string shown(const AddedTokenMatcher& matcher, std::string_view text) {
  std::vector<TextSplit> splits;
  matcher.split(text, splits);
  std::string out;
  for (const TextSplit& split : splits) {
    if (!out.empty()) out += '|';
    if (split.id >= 0) {
      out += '<' + std::to_string(split.id) + '>';
    } else {
      out += split.text;
    }
  }
  return out;
}

TEST(AddedTokens, LongestAtTheLeftmostPlace) {
  const AddedTokenMatcher matcher(
      {token(1, "ab"), token(2, "abc"), token(3, "abcde"), token(4, "bcdef"), token(5, "c")});
  EXPECT_EQ(shown(matcher, "xabcdefab"), "x|<3>|f|<1>");
  EXPECT_EQ(shown(matcher, "abcd"), "<2>|d");
  EXPECT_EQ(shown(matcher, "bcdefc"), "<4>|<5>");
  EXPECT_EQ(shown(matcher, "ab"), "<1>");
  EXPECT_EQ(shown(matcher, ""), "");
  EXPECT_EQ(shown(matcher, "xyz"), "xyz");
}

TEST(AddedTokens, AgreesWithTheDefinitionOnRandomText) {
  std::mt19937 random(17);
  const auto word = [&random](size_t length) {
    std::string out;
    for (size_t i = 0; i < length; ++i) out += static_cast<char>('a' + random() % 3);
    return out;
  };
  for (int run = 0; run < 300; ++run) {
    std::vector<std::string> contents;
    while (contents.size() < 12) {
      const std::string content = word(1 + random() % 5);
      if (std::find(contents.begin(), contents.end(), content) == contents.end()) contents.push_back(content);
    }
    std::vector<AddedToken> tokens;
    for (size_t i = 0; i < 6; ++i) tokens.push_back(token(static_cast<TokenId>(i), contents[i]));
    const AddedTokenMatcher matcher(tokens);
    const std::string text = word(60);
    std::string expected;
    bool in_text = false;
    for (size_t at = 0; at < text.size();) {
      size_t best = contents.size();
      for (size_t i = 0; i < 6; ++i) {
        const bool here = text.compare(at, contents[i].size(), contents[i]) == 0;
        if (here && (best == contents.size() || contents[i].size() > contents[best].size())) best = i;
      }
      const bool found = best != contents.size();
      if (!expected.empty() && (found || !in_text)) expected += '|';
      if (found) {
        expected += '<' + std::to_string(best) + '>';
        at += contents[best].size();
      } else {
        expected += text[at++];
      }
      in_text = !found;
    }
    ASSERT_EQ(shown(matcher, text), expected);
  }
}

TEST(AddedTokens, SingleWord) {
  AddedToken alone = token(1, "<x>");
  alone.single_word = true;
  const AddedTokenMatcher matcher({alone});
  EXPECT_EQ(shown(matcher, "<x>"), "<1>");
  EXPECT_EQ(shown(matcher, " <x>."), " |<1>|.");
  for (const char* text :
       {"a<x>", "<x>b", "_<x>", "\xCC\x80<x>", "\xE2\x80\x8D<x>", "<x>\xD9\xA3", "\xE4\xBD\xA0<x>"}) {
    EXPECT_EQ(shown(matcher, text), text);
  }
}

TEST(AddedTokens, ARefusedMatchIsSkippedWhole) {
  AddedToken alone = token(1, "xx");
  alone.single_word = true;
  const AddedTokenMatcher matcher({alone, token(2, "x")});
  EXPECT_EQ(shown(matcher, "axxx"), "axx|<2>");
  EXPECT_EQ(shown(matcher, "xx"), "<1>");
  EXPECT_EQ(shown(matcher, "xxx x"), "xx|<2>| |<2>");
}

TEST(AddedTokens, StripsWhiteSpace) {
  AddedToken left = token(1, "<l>");
  left.lstrip = true;
  AddedToken right = token(2, "<r>");
  right.rstrip = true;
  const AddedTokenMatcher matcher({left, right});
  EXPECT_EQ(shown(matcher, "a  <l>  b"), "a|<1>|  b");
  EXPECT_EQ(shown(matcher, "a  <r>  b"), "a  |<2>|b");
  EXPECT_EQ(shown(matcher, "a<r> \xE3\x80\x80\n<l>b"), "a|<2>|<1>|b");
  EXPECT_EQ(shown(matcher, "\xC2\xA0\xC2\x85<l>"), "<1>");
  EXPECT_EQ(shown(matcher, "<l><l> <l>"), "<1>|<1>|<1>");
}

TEST(AddedTokens, WhatRstripSwallowsCanStillMatch) {
  AddedToken right = token(1, "<x>");
  right.rstrip = true;
  const AddedTokenMatcher matcher({right, token(2, " ")});
  EXPECT_EQ(shown(matcher, "a<x>  b"), "a|<1>|<2>|<2>|b");
  EXPECT_EQ(shown(matcher, "a<x> <x>"), "a|<1>|<2>|<1>");
}

}  // namespace
}  // namespace glint
