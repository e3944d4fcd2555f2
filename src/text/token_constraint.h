// What may stand at each position of one answer, for example a grammar. The engine sees no more of it than
// this.
#pragma once

#include <cstdint>
#include <span>

#include "text/tokenizer.h"

namespace glint {

/// Called by the engine only, one call at a time; what it allows is a function of the tokens that it was
/// told. It hears of the tokens behind the reasoning, and of the one that ended it unless that is
/// ReasoningRules::close; inside the reasoning everything is allowed.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  /// The ids that may come next: bit id % 32 of word id / 32, enough words for the vocabulary. Empty: all of
  /// them. Valid until the next call of any function.
  virtual std::span<const uint32_t> allowed() = 0;
  /// A token was taken, or a draft made.
  virtual void push(TokenId token) = 0;
  /// Takes the last `count` tokens back: drafts that were not confirmed.
  virtual void pop(int64_t count) = 0;
};

}  // namespace glint
