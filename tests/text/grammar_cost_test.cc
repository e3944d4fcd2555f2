// What a grammar may cost: time to compile, time to follow; and that ordinary schemas stay far below.
#include <gtest/gtest.h>

#include "../support/expect_error.h"
#include "base/json.h"
#include "text/grammar/grammar_cache.h"
#include "text/grammar/text_constraint.h"
#include "text/tag_tokenizer.h"

namespace glint {
namespace {

using Kind = GrammarSource::Kind;

class GrammarCost : public ::testing::Test {
 protected:
  GrammarCost() {
    TagTokenizer pieces;
    for (int c = ' '; c <= '~'; ++c) pieces.piece(std::string(1, static_cast<char>(c)));
    for (const char* piece :
         {"\n", "\"name", "\"a long word", "property_1", "ab", "abc", "aaaaaaaa", "\": \""})
      pieces.piece(piece);
    tokenizer = std::make_shared<TagTokenizer>(pieces);
    eos = {*tokenizer->id_of("<|endoftext|>")};
    table = std::make_shared<const TokenTable>(tokenizer, eos, tokenizer->size());
  }
  void SetUp() override {
    if (!grammars_built()) GTEST_SKIP() << kGrammarsNotBuilt;
  }
  TokenId id(std::string_view text) const { return tokenizer->encode(text, false).at(0); }

  std::shared_ptr<TagTokenizer> tokenizer;
  std::vector<TokenId> eos;
  std::shared_ptr<const TokenTable> table;
};

OrderedJson rows(int count, const OrderedJson& each) {
  OrderedJson schema = {{"type", "object"}, {"additionalProperties", false}};
  for (int i = 0; i < count; ++i) {
    schema["properties"][cat("property_", i)] = each;
    if (i % 2 == 0) schema["required"].push_back(cat("property_", i));
  }
  return schema;
}

OrderedJson binary(int levels) {
  if (levels == 0) return {{"type", "string"}};
  return {{"type", "object"},
          {"properties", {{"a", binary(levels - 1)}, {"b", binary(levels - 1)}}},
          {"required", OrderedJson::array({"a", "b"})}};
}

TEST_F(GrammarCost, OrdinarySchemasCompile) {
  GrammarCache cache(table);
  for (const OrderedJson& schema :
       {rows(300, {{"type", "string"}}), rows(1000, {{"type", "integer"}, {"minimum", 0}}),
        rows(40, {{"type", "string"}, {"minLength", 1}, {"maxLength", 50}}), binary(10)}) {
    EXPECT_NE(cache.get({Kind::json_schema, dump_json(schema)}), nullptr);
  }
}

TEST_F(GrammarCost, WhatTakesTooLongIsRefusedAndRemembered) {
  GrammarCacheOptions options;
  options.compile_time = std::chrono::milliseconds(5);
  GrammarCache cache(table, options);
  const GrammarSource slow{Kind::regex, "[^x]{300}[^y]{90}"};
  expect_error([&] { cache.get(slow); }, {"takes more than 5 ms to compile", "narrower classes"});
  expect_error([&] { cache.get(slow); }, {"takes more than 5 ms to compile"});
  EXPECT_EQ(cache.counts().failures, 1U) << "the time is not spent again";
  EXPECT_NE(cache.get({Kind::regex, "[a-c]{3}"}), nullptr) << "others go on";
}

TEST_F(GrammarCost, AmbiguousGrammarsAreRefused) {
  GrammarCache cache(table);
  expect_error(
      [&] {
        cache.get({Kind::ebnf, "root ::= s\ns ::= s s s | s s | [a-z]"});
      },
      {"can be read in too many ways", "* or +"});
  // As many texts, one reading each.
  EXPECT_NE(cache.get({Kind::ebnf, "root ::= [a-z]+"}), nullptr);
  EXPECT_NE(cache.get({Kind::ebnf, "root ::= e\ne ::= t (\"+\" t)*\nt ::= [0-9]+ | \"(\" e \")\""}), nullptr);
}

/// One that a short walk does not find out: it leaves no token, not even an end, once it has become too slow.
TEST_F(GrammarCost, AMatchThatBecomesTooSlowGivesUp) {
  GrammarCache cache(table);
  const auto grammar = cache.get({Kind::ebnf, "root ::= [b-z]{200} s\ns ::= s s | \"a\""});
  const auto match = grammar->start({});
  TokenMask mask(table->vocab_size());
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(match->accept(id("b")));
  int tokens = 0;
  while (!match->given_up() && tokens < 20'000) {
    match->fill(mask.words());
    EXPECT_TRUE(match->accept(id("a")));
    ++tokens;
  }
  EXPECT_LT(tokens, 20'000);
  EXPECT_GT(tokens, 20);
  match->fill(mask.words());
  for (const uint32_t word : mask.words()) EXPECT_EQ(word, 0U);
  match->rollback(3);
  match->fill(mask.words());
  for (const uint32_t word : mask.words()) EXPECT_EQ(word, 0U) << "nor after drafts were taken back";
}

/// A token that opens a string and writes more than it may hold is none of the mask.
TEST_F(GrammarCost, CountedLengthsHoldWithinATokenToo) {
  GrammarCache cache(table);
  const auto grammar =
      cache.get({Kind::json_schema,
                 R"({"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 8}})"});
  TextConstraint text(grammar, table);
  text.push(id("["));
  const auto holds = [&](TokenId token) {
    return (text.allowed()[static_cast<size_t>(token) / 32] >> (static_cast<uint32_t>(token) % 32) & 1U) != 0;
  };
  EXPECT_TRUE(holds(id("\"name")));
  EXPECT_FALSE(holds(id("\"a long word")));
  text.push(id("\"name"));
  EXPECT_TRUE(holds(id("abc")));
  EXPECT_FALSE(holds(id("aaaaaaaa")));
  text.push(id("abc"));
  text.push(id("a"));
  EXPECT_FALSE(holds(id("a"))) << "eight are written";
  EXPECT_TRUE(holds(id("\"")));
}

/// While a grammar is compiled, or waited for, the thread has stepped aside; not for one that is there.
TEST_F(GrammarCost, CompilingStepsAside) {
  GrammarCache cache(table);
  int entered = 0;
  int left = 0;
  cache.step_aside_by([&] {
    ++entered;
    return std::shared_ptr<void>(&left, [](void* count) { ++*static_cast<int*>(count); });
  });
  const GrammarSource source{Kind::regex, "[a-z]{3}"};
  EXPECT_NE(cache.get(source), nullptr);
  EXPECT_EQ(entered, 1);
  EXPECT_EQ(left, 1);
  EXPECT_NE(cache.get(source), nullptr);
  EXPECT_EQ(entered, 1);
  cache.step_aside_by([]() -> std::shared_ptr<void> { fail(ErrorKind::busy, "no room"); });
  expect_error([&] { cache.get({Kind::regex, "[a-z]{4}"}); }, {"no room"});
  cache.step_aside_by(nullptr);
  EXPECT_NE(cache.get({Kind::regex, "[a-z]{4}"}), nullptr) << "being busy is not remembered";
}

}  // namespace
}  // namespace glint
