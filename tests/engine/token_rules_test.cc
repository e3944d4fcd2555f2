// A request's rules against their definition, worked out anew from the whole history each time.
#include "engine/token_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

namespace glint {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr int64_t kVocab = 40;

/// Allows what has the same parity as the sum of the tokens so far; a stack of the tokens checks push and
/// pop.
class ParityConstraint : public TokenConstraint {
 public:
  std::vector<TokenId> heard;
  std::span<const uint32_t> allowed() override {
    if (heard.size() % 5 == 4) return {};
    int64_t sum = 0;
    for (const TokenId token : heard) sum += token;
    bits_ = sum % 2 == 0 ? std::array<uint32_t, 2>{0x55555555U, 0x55555555U}
                         : std::array<uint32_t, 2>{0xAAAAAAAAU, 0xAAAAAAAAU};
    return bits_;
  }
  void push(TokenId token) override { heard.push_back(token); }
  void pop(int64_t count) override {
    ASSERT_LE(count, static_cast<int64_t>(heard.size()));
    heard.resize(heard.size() - static_cast<size_t>(count));
  }

 private:
  std::array<uint32_t, 2> bits_{};
};

/// The definition.
struct Definition {
  const SamplingParams& params;
  std::vector<TokenId> prompt;
  std::vector<TokenId> eos;

  [[nodiscard]] size_t reasoning_end(
      const std::vector<TokenId>& output) const {  // position, or size if still inside
    const auto& ends = params.reasoning.ends;
    if (ends.empty()) return 0;
    for (size_t i = 0; i < output.size(); ++i) {
      if (std::count(ends.begin(), ends.end(), output[i]) > 0) return i;
    }
    return output.size();
  }
  /// Whether `close` must come next: text behind an opening tag is reasoning, the first as every later one.
  [[nodiscard]] bool must_close(const std::vector<TokenId>& output) const {
    const ReasoningRules& rules = params.reasoning;
    char state = rules.ends.empty() ? 't' : 'r';  // text, reasoning, call
    int64_t thought = 0;
    for (const TokenId token : output) {
      thought += state == 'r' && token != rules.close && token != rules.call_open;
      if (token == rules.call_open) state = 'c';
      if (token == rules.call_close && state == 'c') state = 't';
      if (token == rules.close && state == 'r') state = 't';
      if (token == rules.open && state == 't') state = 'r';
    }
    return rules.budget >= 0 && state == 'r' && thought >= rules.budget;
  }
  [[nodiscard]] bool inside(const std::vector<TokenId>& output) const {
    return !params.reasoning.ends.empty() && reasoning_end(output) == output.size();
  }
  [[nodiscard]] std::vector<float> apply(std::vector<float> logits,
                                         const std::vector<TokenId>& output) const {
    for (TokenId id = 0; id < kVocab; ++id) {
      float& logit = logits[static_cast<size_t>(id)];
      for (const LogitBias& entry : params.logit_bias) logit += entry.id == id ? entry.bias : 0;
      if (excluded(id, output)) logit = kNever;
      const auto in_output = std::count(output.begin(), output.end(), id);
      const bool seen = in_output > 0 || std::count(prompt.begin(), prompt.end(), id) > 0;
      if (seen && logit > 0)
        logit /= params.repetition_penalty;
      else if (seen)
        logit *= params.repetition_penalty;
      if (in_output > 0) {
        logit -= params.frequency_penalty * static_cast<float>(in_output);
        logit -= params.presence_penalty;
      }
    }
    return logits;
  }
  [[nodiscard]] bool excluded(TokenId id, const std::vector<TokenId>& output) const {
    const auto holds = [id](const std::vector<TokenId>& ids) {
      return std::count(ids.begin(), ids.end(), id) > 0;
    };
    if (params.allowed_token_ids && !holds(*params.allowed_token_ids)) return true;
    for (std::vector<TokenId> word : params.bad_words) {
      if (word.back() != id) continue;
      word.pop_back();
      if (word.size() <= output.size() && std::equal(word.rbegin(), word.rend(), output.rbegin()))
        return true;
    }
    if (static_cast<int64_t>(output.size()) < params.min_tokens &&
        (holds(params.stop_token_ids) || (!params.ignore_eos && holds(eos)))) {
      return true;
    }
    if (!params.constraint || inside(output)) return false;
    ParityConstraint fresh;
    size_t begin = 0;
    if (!params.reasoning.ends.empty()) {
      begin = reasoning_end(output);
      if (output[begin] == params.reasoning.close) ++begin;
    }
    for (size_t i = begin; i < output.size(); ++i) fresh.push(output[i]);
    const auto allowed = fresh.allowed();
    return !allowed.empty() && (allowed[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) == 0;
  }
};

SamplingParams random_params(std::mt19937& random) {
  const auto id = [&] { return static_cast<TokenId>(random() % kVocab); };
  SamplingParams params;
  if (random() % 2 == 0) params.presence_penalty = 0.7F;
  if (random() % 2 == 0) params.frequency_penalty = -0.4F;
  if (random() % 2 == 0) params.repetition_penalty = random() % 2 == 0 ? 1.3F : 0.8F;
  if (random() % 2 == 0) params.logit_bias = {{3, 2.5F}, {id() / 2 + 10, -100.0F}};
  if (random() % 3 == 0) {
    params.allowed_token_ids.emplace();
    for (int i = 0; i < 12; ++i) params.allowed_token_ids->push_back(id());
  }
  if (random() % 2 == 0) params.bad_words = {{id()}, {id(), id()}, {5, 6, 7}, {5, 5}};
  if (random() % 2 == 0) params.min_tokens = static_cast<int64_t>(random() % 20);
  params.ignore_eos = random() % 2 == 0;
  params.stop_token_ids = {id(), id()};
  if (random() % 2 == 0) {
    params.reasoning = {{38, 39}, static_cast<int64_t>(random() % 12) - 1, 39, {}, 37, 38, 36};
    if (random() % 4 == 0) params.reasoning.ends.clear();
  }
  if (random() % 3 == 0) params.constraint = std::make_shared<ParityConstraint>();
  return params;
}

TEST(TokenRules, FollowTheirDefinitionForwardsAndBack) {
  std::mt19937 random(21);
  std::normal_distribution<float> normal(0, 3);
  int forced = 0;
  int forced_again = 0;
  int constrained = 0;
  for (int round = 0; round < 400; ++round) {
    const SamplingParams params = random_params(random);
    std::vector<TokenId> prompt;
    for (size_t i = 0; i < 1 + random() % 30; ++i) prompt.push_back(static_cast<TokenId>(random() % kVocab));
    const Definition definition{params, prompt, {0, 1}};
    TokenRules rules(params, prompt, definition.eos, kVocab, 64);
    std::vector<TokenId> output;
    for (int step = 0; step < 60; ++step) {
      if (random() % 3 == 0 && !output.empty()) {  // drafts that come to nothing
        const size_t count = 1 + random() % std::min<size_t>(8, output.size());
        rules.pop(std::span(output).last(count));
        output.resize(output.size() - count);
      } else {
        output.push_back(static_cast<TokenId>(random() % 3 == 0 ? 5 + random() % 3 : random() % kVocab));
        rules.push(output.back());
      }
      const bool inside = definition.inside(output);
      const bool must = definition.must_close(output);
      ASSERT_EQ(rules.forced().has_value(), must);
      EXPECT_EQ(rules.forced().value_or(39), 39);
      forced += must;
      forced_again += must && !inside;
      std::vector<float> logits;
      for (int64_t i = 0; i < kVocab; ++i) logits.push_back(normal(random));
      const std::vector<float> wanted = definition.apply(logits, output);
      const bool changes = wanted != logits;
      rules.apply(logits);
      ASSERT_EQ(logits, wanted) << "round " << round << " step " << step;
      ASSERT_TRUE(rules.active() || !changes);
      constrained += params.constraint != nullptr && !inside;
    }
  }
  EXPECT_GT(forced, 100);
  EXPECT_GT(forced_again, 50);
  EXPECT_GT(constrained, 100);
}

TEST(TokenRules, NamesTheFieldsThatExcludeTokens) {
  SamplingParams params;
  params.allowed_token_ids = std::vector<TokenId>{3};
  EXPECT_EQ(TokenRules(params, {}, {}, kVocab, 10).excluding(), "allowed_token_ids");
  params.bad_words = {{3}};
  params.min_tokens = 1;
  params.stop_token_ids = {3};
  params.constraint = std::make_shared<ParityConstraint>();
  params.constraint_field = "structured_outputs.regex";
  TokenRules rules(params, {}, {}, kVocab, 10);
  EXPECT_EQ(rules.excluding(), "structured_outputs.regex, allowed_token_ids, bad_words and min_tokens");
  rules.push(4);
  EXPECT_EQ(rules.excluding(), "structured_outputs.regex, allowed_token_ids and bad_words");
}

TEST(TokenRules, NoRulesChangeNothing) {
  TokenRules none;
  none.push(3);
  EXPECT_FALSE(none.active());
  EXPECT_FALSE(none.forced());
  const SamplingParams neutral;
  TokenRules rules(neutral, std::vector<TokenId>{1, 2}, std::vector<TokenId>{0}, kVocab, 10);
  rules.push(2);
  EXPECT_FALSE(rules.active());
  std::vector<float> logits(kVocab, -0.0F);
  rules.apply(logits);
  EXPECT_TRUE(std::all_of(logits.begin(), logits.end(),
                          [](float value) { return value == 0 && std::signbit(value); }));
}

TEST(TokenRules, APenaltyNeverMakesAnInfinity) {
  SamplingParams params;
  params.repetition_penalty = 1e-38F;
  TokenRules rules(params, std::vector<TokenId>{2}, {}, 4, 10);
  std::vector<float> logits = {1, 2, 300, kNever};
  rules.apply(logits);
  EXPECT_TRUE(std::isfinite(logits[2]));
  EXPECT_EQ(logits[3], kNever);
}

}  // namespace
}  // namespace glint
