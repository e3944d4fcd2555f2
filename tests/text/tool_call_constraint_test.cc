// The call automaton, without any grammar: names, keys, enums, free text, ends, and the way back.
#include "text/grammar/tool_call_constraint.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "text/tag_tokenizer.h"

namespace glint {
namespace {

using Calls = ToolCallPlan::Calls;

/// Letters, some longer pieces, and GLM's tags.
struct Words {
  Words() {
    for (char c = 'a'; c <= 'z'; ++c) pieces.piece(std::string(1, c));
    for (const char* piece :
         {"_", " ", "run", "_in", "un", "cit", "ci", "ty", "\xE2", "\x82", "kitchen", "kit"})
      pieces.piece(piece);
    tokenizer = std::make_shared<TagTokenizer>(pieces);
    tags = std::make_shared<const OutputTags>(*tokenizer);
    eos = {*tokenizer->id_of("<|endoftext|>"), *tokenizer->id_of("<|observation|>")};
    table = std::make_shared<const TokenTable>(tokenizer, eos, tokenizer->size());
  }
  TokenId id(std::string_view text) { return tokenizer->encode(text, false).at(0); }
  TokenId tag(OutputTag tag) const { return tags->id(tag); }

  TagTokenizer pieces;
  std::shared_ptr<TagTokenizer> tokenizer;
  std::shared_ptr<const OutputTags> tags;
  std::vector<TokenId> eos;
  std::shared_ptr<const TokenTable> table;
};

class ToolCallConstraintTest : public ::testing::Test {
 protected:
  std::shared_ptr<ToolCallPlan> plan(Calls calls, bool one_only) {
    using Kind = ArgumentRule::Kind;
    std::vector<ToolRule> rules;
    rules.push_back({"run",
                     {{"city", true, Kind::any_text, {}, nullptr},
                      {"cit", false, Kind::one_of, {"kitchen", "kit"}, nullptr}},
                     false});
    rules.push_back({"run_in", {}, false});
    rules.push_back({"free", {}, true});
    return std::make_shared<ToolCallPlan>(std::move(rules), calls, one_only, *words.tags, words.table);
  }
  /// The ids that may come, by their text; tags by their name; "*" for everything.
  std::set<std::string> allowed(ToolCallConstraint& constraint) const {
    std::set<std::string> texts;
    const auto mask = constraint.allowed();
    if (mask.empty()) return {"*"};
    for (TokenId id = 0; id < words.tokenizer->size(); ++id) {
      if ((mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) != 0)
        texts.emplace(words.tokenizer->token_bytes(id));
    }
    return texts;
  }
  void push(ToolCallConstraint& constraint, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) constraint.push(words.id(text));
  }
  Words words;
  const std::set<std::string> ends = {"<|endoftext|>", "<|observation|>"};
};

TEST_F(ToolCallConstraintTest, NamesAreOfTheTools) {
  ToolCallConstraint call(plan(Calls::must, false));
  EXPECT_EQ(allowed(call), std::set<std::string>{"<tool_call>"});
  push(call, {"<tool_call>"});
  EXPECT_EQ(allowed(call), (std::set<std::string>{"r", "run", "f"}));
  push(call, {"r"});
  EXPECT_EQ(allowed(call), (std::set<std::string>{"u", "un"}));
  push(call, {"un"});
  EXPECT_EQ(allowed(call), (std::set<std::string>{"_", "_in", "<arg_key>"}))
      << "run needs its city, run_in goes on";
  push(call, {"_in"});
  EXPECT_EQ(allowed(call), std::set<std::string>{"</tool_call>"}) << "no arguments are declared";
  push(call, {"</tool_call>"});
  std::set<std::string> next = ends;
  next.insert("<tool_call>");
  EXPECT_EQ(allowed(call), next);
  push(call, {"<|observation|>"});
  EXPECT_EQ(allowed(call), ends) << "nothing but an end behind the end";
}

TEST_F(ToolCallConstraintTest, KeysComeOnceAndTheRequiredOnesCome) {
  ToolCallConstraint call(plan(Calls::must, true));
  push(call, {"<tool_call>", "run", "<arg_key>"});
  EXPECT_EQ(allowed(call), (std::set<std::string>{"c", "ci", "cit"}));
  push(call, {"cit"});
  EXPECT_EQ(allowed(call), (std::set<std::string>{"y", "</arg_key>"}))
      << "one key is the beginning of the other";
  push(call, {"</arg_key>"});
  EXPECT_EQ(allowed(call), std::set<std::string>{"<arg_value>"});
  push(call, {"<arg_value>"});
  EXPECT_EQ(allowed(call), (std::set<std::string>{"k", "kit", "kitchen"}));
  push(call, {"kit"});
  EXPECT_EQ(allowed(call), (std::set<std::string>{"c", "</arg_value>"}));
  push(call, {"</arg_value>"});
  EXPECT_EQ(allowed(call), std::set<std::string>{"<arg_key>"}) << "city is missing";
  push(call, {"<arg_key>"});
  EXPECT_EQ(allowed(call), (std::set<std::string>{"c", "ci", "cit"}));
  push(call, {"ci"});
  EXPECT_EQ(allowed(call), (std::set<std::string>{"t", "ty"})) << "cit is used up, but city begins with it";
  push(call, {"ty", "</arg_key>", "<arg_value>"});
  const std::set<std::string> text = allowed(call);
  EXPECT_TRUE(text.contains("\xE2") && text.contains("</arg_value>") && text.contains("kitchen"));
  EXPECT_FALSE(text.contains("</tool_call>") || text.contains("<|user|>") || text.contains("<think>"));
  push(call, {"run", " ", "</arg_value>"});
  EXPECT_EQ(allowed(call), std::set<std::string>{"</tool_call>"}) << "all keys are used";
  push(call, {"</tool_call>"});
  EXPECT_EQ(allowed(call), ends) << "one call only";
}

TEST_F(ToolCallConstraintTest, TextGoesFreeAroundCalls) {
  ToolCallConstraint call(plan(Calls::may, false));
  EXPECT_EQ(allowed(call), std::set<std::string>{"*"});
  push(call, {"a", "</arg_key>", "<tool_call>", "f", "r", "e", "e", "<arg_key>"});
  EXPECT_FALSE(allowed(call).contains("</arg_key>")) << "a key has a letter at least";
  push(call, {"z"});
  EXPECT_TRUE(allowed(call).contains("</arg_key>"));
  push(call, {"</arg_key>", "<arg_value>", "b", "</arg_value>"});
  EXPECT_EQ(allowed(call), (std::set<std::string>{"<arg_key>", "</tool_call>"}));
  push(call, {"</tool_call>"});
  EXPECT_EQ(allowed(call), std::set<std::string>{"*"});
}

TEST_F(ToolCallConstraintTest, DraftsLeaveNoTrace) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    ToolCallConstraint call(plan(round % 2 == 0 ? Calls::must : Calls::may, round % 3 == 0));
    std::vector<std::set<std::string>> masks;  // in front of each position
    std::vector<TokenId> tokens;
    size_t highest = 0;
    for (int step = 0; step < 60; ++step) {
      const std::set<std::string> now = allowed(call);
      if (masks.size() == tokens.size()) masks.push_back(now);
      ASSERT_EQ(now, masks[tokens.size()]) << "round " << round << " step " << step;
      if (random() % 3 == 0 && !tokens.empty()) {
        const size_t room = 15 - (highest - tokens.size());  // of what the constraint remembers
        if (room == 0) continue;
        const size_t back = 1 + random() % std::min({size_t{8}, tokens.size(), room});
        call.pop(static_cast<int64_t>(back));
        tokens.resize(tokens.size() - back);
        continue;
      }
      const std::string text = now.contains("*")
                                   ? (random() % 2 == 0 ? "<tool_call>" : "a")
                                   : *std::next(now.begin(), static_cast<int64_t>(random() % now.size()));
      const TokenId token = words.id(text);
      masks.resize(tokens.size() + 1);
      tokens.push_back(token);
      highest = std::max(highest, tokens.size());
      call.push(token);
    }
  }
}

}  // namespace
}  // namespace glint
