#include "engine/token_rules.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/error.h"

namespace glint {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Excludes the ids whose bit is not set, if there are bits at all. Most words are all or nothing.
void forbid_others(std::span<const uint32_t> allowed, std::span<float> logits) {
  constexpr size_t kBits = 32;
  if (allowed.empty()) return;
  for (size_t begin = 0; begin < logits.size(); begin += kBits) {
    const uint32_t word = allowed[begin / kBits];
    if (word == ~0U) continue;
    float* const row = logits.data() + begin;
    const size_t size = std::min(kBits, logits.size() - begin);
    if (word == 0) {
      std::fill(row, row + size, kNever);
      continue;
    }
    for (size_t bit = 0; bit < size; ++bit) {
      if ((word >> bit & 1U) == 0) row[bit] = kNever;
    }
  }
}

bool holds(const std::vector<TokenId>& ids, TokenId token) {
  return std::find(ids.begin(), ids.end(), token) != ids.end();
}

}  // namespace

TokenRules::TokenRules(const SamplingParams& params, std::span<const TokenId> prompt,
                       std::span<const TokenId> eos, int64_t vocab_size, int64_t tokens_max)
    : params_(&params), reasoning_(!params.reasoning.ends.empty()) {
  if (params.min_tokens > 0) {
    endings_ = params.stop_token_ids;
    if (!params.ignore_eos) endings_.insert(endings_.end(), eos.begin(), eos.end());
  }
  if (params.allowed_token_ids) {
    allowed_.resize(static_cast<size_t>(vocab_size));
    for (const TokenId id : *params.allowed_token_ids) allowed_[static_cast<size_t>(id)] = true;
  }
  const int64_t output_max = tokens_max + kSpeculativeTokensMax;
  if (params.reasoning.budget >= 0) {
    phase_ = reasoning_ ? Phase::reasoning : Phase::content;
    phases_.reserve(static_cast<size_t>(output_max));
  }
  if (!params.bad_words.empty()) output_.reserve(static_cast<size_t>(output_max));
  if (!penalises()) return;
  place_.assign(static_cast<size_t>(vocab_size), -1);
  seen_.reserve(static_cast<size_t>(std::min(vocab_size, static_cast<int64_t>(prompt.size()) + output_max)));
  if (params.repetition_penalty == 1.0F) return;
  for (const TokenId id : prompt) seen(id).in_prompt = true;
}

bool TokenRules::penalises() const {
  return params_->presence_penalty != 0 || params_->frequency_penalty != 0 ||
         params_->repetition_penalty != 1.0F;
}

TokenRules::Seen& TokenRules::seen(TokenId id) {
  int32_t& place = place_[static_cast<size_t>(id)];
  if (place < 0) {
    place = static_cast<int32_t>(seen_.size());
    seen_.push_back({.id = id});
  }
  return seen_[static_cast<size_t>(place)];
}

/// Which tags begin and end a reasoning, as OutputParser takes them; only a call whose text holds the end of
/// a call is over earlier here.
void TokenRules::follow(TokenId token) {
  const ReasoningRules& rules = params_->reasoning;
  phases_.push_back(phase_);
  if (token == rules.call_open) {
    phase_ = Phase::call;
  } else if (phase_ == Phase::call) {
    if (token == rules.call_close) phase_ = Phase::content;
  } else if (token == rules.close || (phase_ == Phase::reasoning && holds(rules.ends, token))) {
    phase_ = Phase::content;
  } else if (phase_ == Phase::reasoning) {
    ++reasoned_;
  } else if (token == rules.open) {
    phase_ = Phase::reasoning;
  }
}

void TokenRules::push(TokenId token) {
  if (params_ == nullptr) return;
  if (params_->reasoning.budget >= 0) follow(token);
  if (in_reasoning()) {
    if (holds(params_->reasoning.ends, token)) {
      reasoning_end_ = position_;
      constraint_begin_ = position_ + (token == params_->reasoning.close ? 1 : 0);
    }
  }
  if (constrained() && position_ >= constraint_begin_) params_->constraint->push(token);
  if (!place_.empty()) ++seen(token).count;
  if (!params_->bad_words.empty()) output_.push_back(token);
  ++position_;
}

void TokenRules::pop(std::span<const TokenId> tokens) {
  if (params_ == nullptr || tokens.empty()) return;
  const auto count = static_cast<int64_t>(tokens.size());
  GLINT_CHECK(count <= position_);
  position_ -= count;
  if (params_->reasoning.budget >= 0) {
    for (int64_t i = 0; i < count; ++i) {
      // A token of the reasoning is what did not leave it.
      if (phase_ == Phase::reasoning && phases_.back() == Phase::reasoning) --reasoned_;
      phase_ = phases_.back();
      phases_.pop_back();
    }
  }
  if (constrained()) {
    const int64_t heard = position_ + count - std::max(position_, constraint_begin_);
    if (heard > 0) params_->constraint->pop(heard);
  }
  if (reasoning_end_ >= position_) reasoning_end_ = -1;
  if (!place_.empty()) {
    for (const TokenId token : tokens) --seen(token).count;
  }
  if (!params_->bad_words.empty()) output_.resize(output_.size() - tokens.size());
}

std::optional<TokenId> TokenRules::forced() const {
  if (params_ == nullptr || params_->reasoning.budget < 0) return std::nullopt;
  if (phase_ != Phase::reasoning || reasoned_ < params_->reasoning.budget) return std::nullopt;
  return params_->reasoning.close;
}

bool TokenRules::active() const {
  if (params_ == nullptr) return false;
  return (constrained() && !params_->constraint->allowed().empty()) || guarded() ||
         !params_->logit_bias.empty() || !allowed_.empty() || !params_->bad_words.empty() ||
         position_ < params_->min_tokens || penalises();
}

bool TokenRules::idle() const {
  if (params_ == nullptr) return true;
  return params_->constraint == nullptr && params_->reasoning.never.empty() &&
         params_->reasoning.budget < 0 && params_->logit_bias.empty() && allowed_.empty() &&
         params_->bad_words.empty() && position_ >= params_->min_tokens && !penalises();
}

void TokenRules::apply(std::span<float> logits) const {
  if (params_ == nullptr) return;
  for (const LogitBias& entry : params_->logit_bias) logits[static_cast<size_t>(entry.id)] += entry.bias;
  mask(logits);
  forbid_bad_words(logits);
  if (penalises()) penalise(logits);
}

void TokenRules::mask(std::span<float> logits) const {
  if (constrained()) forbid_others(params_->constraint->allowed(), logits);
  if (guarded()) {
    for (const TokenId id : params_->reasoning.never) logits[static_cast<size_t>(id)] = kNever;
  }
  for (size_t id = 0; id < allowed_.size(); ++id) {
    if (!allowed_[id]) logits[id] = kNever;
  }
  if (position_ >= params_->min_tokens) return;
  for (const TokenId id : endings_) logits[static_cast<size_t>(id)] = kNever;
}

std::string TokenRules::excluding() const {
  std::vector<std::string_view> fields;
  if (constrained() || guarded()) {
    fields.emplace_back(params_->constraint_field);
    if (fields.back().empty()) fields.back() = "the grammar";
  }
  if (!allowed_.empty()) fields.push_back("allowed_token_ids");
  if (!params_->bad_words.empty()) fields.push_back("bad_words");
  if (position_ < params_->min_tokens && !endings_.empty()) fields.push_back("min_tokens");
  if (fields.empty() && penalises()) fields.push_back("repetition_penalty");
  std::string text;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) text += i + 1 == fields.size() ? " and " : ", ";
    text += fields[i];
  }
  return text;
}

void TokenRules::forbid_bad_words(std::span<float> logits) const {
  for (const std::vector<TokenId>& word : params_->bad_words) {
    const size_t before = word.size() - 1;
    if (before > output_.size()) continue;
    if (!std::equal(word.begin(), word.end() - 1, output_.end() - static_cast<int64_t>(before))) continue;
    logits[static_cast<size_t>(word.back())] = kNever;
  }
}

void TokenRules::penalise(std::span<float> logits) const {
  for (const Seen& entry : seen_) {
    if (entry.count == 0 && !entry.in_prompt) continue;
    float& logit = logits[static_cast<size_t>(entry.id)];
    if (params_->repetition_penalty != 1.0F) {
      logit = logit > 0 ? logit / params_->repetition_penalty : logit * params_->repetition_penalty;
      logit = std::min(logit, std::numeric_limits<float>::max());
    }
    if (entry.count == 0) continue;
    logit -= params_->frequency_penalty * static_cast<float>(entry.count);
    logit -= params_->presence_penalty;
  }
}

}  // namespace glint
