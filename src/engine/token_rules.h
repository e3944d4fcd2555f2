// The rules of one request that look at the tokens before: penalties, bad words, min_tokens, the reasoning
// budget, a constraint. They follow the tokens one by one, drafts too, so that every row of logits meets the
// rules of its own prefix.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace glint {

class TokenRules {
 public:
  /// No rules.
  TokenRules() = default;
  /// `params` outlives this. `eos`: ids that end a sequence which does not ignore them. Takes all the memory
  /// that it will need for `tokens_max` output tokens; ids of `params` and `prompt` are below vocab_size.
  TokenRules(const SamplingParams& params, std::span<const TokenId> prompt, std::span<const TokenId> eos,
             int64_t vocab_size, int64_t tokens_max);

  /// A token was taken, or drafted, after the ones before.
  void push(TokenId token);
  /// Takes back the last tokens that were pushed: these, in the order in which they were pushed.
  void pop(std::span<const TokenId> tokens);

  /// The token that must come next, if a reasoning goes on and the budget is used up.
  [[nodiscard]] std::optional<TokenId> forced() const;
  /// False if apply() would change nothing here.
  [[nodiscard]] bool active() const;
  /// True if no rule can act here or on any later token.
  [[nodiscard]] bool idle() const;
  /// Makes the next token's logits (one per id of the vocabulary) obey the rules. Excluded ids become -inf. A
  /// bias or penalty works in float32, in the order of SamplingParams.
  void apply(std::span<float> logits) const;
  /// The fields whose rules exclude tokens here: "allowed_token_ids and bad_words"; for errors.
  [[nodiscard]] std::string excluding() const;

 private:
  enum class Phase : uint8_t { content, reasoning, call };
  struct Seen {
    TokenId id = 0;
    int32_t count = 0;  // in the output
    bool in_prompt = false;
  };
  [[nodiscard]] bool penalises() const;
  [[nodiscard]] bool in_reasoning() const { return reasoning_ && reasoning_end_ < 0; }
  [[nodiscard]] bool guarded() const { return in_reasoning() && !params_->reasoning.never.empty(); }
  [[nodiscard]] bool constrained() const { return params_->constraint != nullptr && !in_reasoning(); }
  Seen& seen(TokenId id);
  void follow(TokenId token);
  void mask(std::span<float> logits) const;
  void forbid_bad_words(std::span<float> logits) const;
  void penalise(std::span<float> logits) const;

  const SamplingParams* params_ = nullptr;
  std::vector<TokenId> endings_;  // min_tokens: what may not come before
  std::vector<bool> allowed_;     // allowed_token_ids, one an id; empty: all
  std::vector<Seen> seen_;        // each distinct id once
  std::vector<int32_t> place_;    // of an id in seen_, -1 if it is not there; empty without penalties
  std::vector<TokenId> output_;   // with bad words
  int64_t position_ = 0;          // output tokens so far
  bool reasoning_ = false;        // the answer began inside a reasoning
  int64_t reasoning_end_ = -1;    // position of the token that ended it
  int64_t constraint_begin_ = 0;  // position of the first token that the constraint hears of
  // With a budget:
  Phase phase_ = Phase::content;
  int64_t reasoned_ = 0;       // output tokens inside a reasoning, its end left out
  std::vector<Phase> phases_;  // in front of each output token
};

}  // namespace glint
