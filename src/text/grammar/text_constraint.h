// Structured output: the answer's text follows one grammar from its first token to its end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "text/grammar/grammar.h"
#include "text/token_constraint.h"

namespace glint {

/// The masks of the last positions, so that a position which was drafted and is verified afterwards costs
/// once.
class MaskHistory {
 public:
  MaskHistory(int64_t vocab_size, size_t positions)
      : masks_(positions, TokenMask(vocab_size)), valid_(positions, -1) {}
  /// The mask of a position; `fresh`: it has to be filled.
  std::span<uint32_t> at(int64_t position, bool& fresh);
  /// A token was pushed at `position`; `same`: the one that stood there when the later masks were made.
  void forget_after(int64_t position);

 private:
  std::vector<TokenMask> masks_;
  std::vector<int64_t> valid_;  // the position of each mask, -1: none
};

class TextConstraint final : public TokenConstraint {
 public:
  TextConstraint(std::shared_ptr<const CompiledGrammar> grammar, std::shared_ptr<const TokenTable> table);

  std::span<const uint32_t> allowed() override;
  void push(TokenId token) override;
  void pop(int64_t count) override;

 private:
  static constexpr size_t kHistory = 16;  // more than a step drafts
  std::shared_ptr<const CompiledGrammar> grammar_;
  std::shared_ptr<const TokenTable> table_;
  std::unique_ptr<GrammarMatch> match_;
  MaskHistory masks_;
  TokenMask ends_;                // what is left behind the end
  std::vector<TokenId> drafted_;  // by position % kHistory: what was pushed there last
  int64_t position_ = 0;
  int64_t over_ = -1;  // position behind the token that ended the text, -1: it goes on
};

}  // namespace glint
