#include "text/grammar/text_constraint.h"

#include <algorithm>

#include "base/error.h"

namespace glint {

std::span<uint32_t> MaskHistory::at(int64_t position, bool& fresh) {
  const auto place = static_cast<size_t>(position) % masks_.size();
  fresh = valid_[place] != position;
  valid_[place] = position;
  return masks_[place].words();
}

void MaskHistory::forget_after(int64_t position) {
  for (int64_t& valid : valid_) {
    if (valid > position) valid = -1;
  }
}

TextConstraint::TextConstraint(std::shared_ptr<const CompiledGrammar> grammar,
                               std::shared_ptr<const TokenTable> table)
    : grammar_(std::move(grammar)),
      table_(std::move(table)),
      match_(grammar_->start({})),
      masks_(table_->vocab_size(), kHistory),
      ends_(table_->vocab_size()),
      drafted_(kHistory, -1) {
  for (const TokenId id : table_->eos()) ends_.set(id);
}

std::span<const uint32_t> TextConstraint::allowed() {
  if (over_ >= 0) return ends_.words();
  bool fresh = false;
  const std::span<uint32_t> mask = masks_.at(position_, fresh);
  if (fresh) match_->fill(mask);
  return mask;
}

void TextConstraint::push(TokenId token) {
  TokenId& before = drafted_[static_cast<size_t>(position_) % kHistory];
  if (before != token) masks_.forget_after(position_);
  before = token;
  if (over_ < 0 && (ends_.holds(token) || !match_->accept(token))) {
    // The end, or a token that the mask did not hold: nothing can follow.
    over_ = position_ + 1;
  }
  ++position_;
}

void TextConstraint::pop(int64_t count) {
  GLINT_CHECK(count <= position_);
  position_ -= count;
  int64_t heard = count;
  if (over_ >= 0) {
    // Of the tokens behind the end, and of the end itself, the match has not heard.
    heard = std::max<int64_t>(0, over_ - 1 - position_);
    if (position_ < over_) over_ = -1;
  }
  if (heard > 0) match_->rollback(heard);
}

}  // namespace glint
