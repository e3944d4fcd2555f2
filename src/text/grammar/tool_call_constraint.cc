#include "text/grammar/tool_call_constraint.h"

#include <algorithm>

#include "base/error.h"
#include "text/grammar/literal_set.h"

namespace glint {

ToolCallPlan::ToolCallPlan(std::vector<ToolRule> own_rules, Calls own_calls, bool one,
                           const OutputTags& own_tags, std::shared_ptr<const TokenTable> own_table)
    : rules(std::move(own_rules)),
      calls(own_calls),
      one_only(one),
      table(std::move(own_table)),
      value_text(table->ordinary()),
      key_text(table->ordinary()),
      endings(table->vocab_size()) {
  for (size_t i = 0; i < kOutputTags; ++i) tags[i] = own_tags.id(static_cast<OutputTag>(i));
  value_text.set(own_tags.id(OutputTag::value_close));
  key_text.set(own_tags.id(OutputTag::key_close));
  for (const TokenId id : table->eos()) endings.set(id);
}

ToolCallConstraint::ToolCallConstraint(std::shared_ptr<const ToolCallPlan> plan)
    : plan_(std::move(plan)),
      before_(kHistory),
      drafted_(kHistory, -1),
      masks_(plan_->table->vocab_size(), kHistory),
      mask_(plan_->table->vocab_size()) {
  if (plan_->content) {
    start_match(*plan_->content, {});
  } else if (plan_->calls == ToolCallPlan::Calls::may) {
    state_.phase = Phase::text;
  }
}

// ------------------------------------------------------------------------------------------------ what may
// come

bool ToolCallConstraint::more_keys() const {
  return rule().any_key || std::find(state_.used.begin(), state_.used.end(), false) != state_.used.end();
}

bool ToolCallConstraint::may_close() const {
  for (size_t i = 0; i < state_.used.size(); ++i) {
    if (rule().arguments[i].required && !state_.used[i]) return false;
  }
  return true;
}

std::span<const uint32_t> ToolCallConstraint::allowed() {
  if (!known_) now_ = fill();
  known_ = true;
  return now_;
}

std::span<const uint32_t> ToolCallConstraint::fill() {
  switch (state_.phase) {
    case Phase::text:
      return {};
    case Phase::over:
      return plan_->endings.words();
    case Phase::content:
    case Phase::begin:
      if (state_.match == nullptr) break;
      fill_match();
      if (state_.phase == Phase::begin) mask_.set(tag(OutputTag::call_open));
      return mask_.words();
    case Phase::name:
      return fill_name();
    case Phase::key:
      return fill_key();
    case Phase::value:
      return fill_value();
    case Phase::value_open:
    case Phase::pair_end:
    case Phase::between:
      break;
  }
  if (state_.phase == Phase::between) {
    mask_ = plan_->endings;
  } else {
    mask_.clear();
  }
  if (state_.phase == Phase::pair_end) {
    allow_pair_or_close();
  } else {
    mask_.set(tag(state_.phase == Phase::value_open ? OutputTag::value_open : OutputTag::call_open));
  }
  return mask_.words();
}

void ToolCallConstraint::allow_pair_or_close() {
  if (more_keys()) mask_.set(tag(OutputTag::key_open));
  if (may_close()) mask_.set(tag(OutputTag::call_close));
}

std::span<const uint32_t> ToolCallConstraint::fill_name() {
  mask_.clear();
  for (const ToolRule& tool : plan_->rules) {
    if (!allow_towards(*plan_->table, tool.name, state_.written, mask_)) continue;
    const bool needs = std::any_of(tool.arguments.begin(), tool.arguments.end(),
                                   [](const ArgumentRule& argument) { return argument.required; });
    if (!tool.arguments.empty() || tool.any_key) mask_.set(tag(OutputTag::key_open));
    if (!needs) mask_.set(tag(OutputTag::call_close));
  }
  return mask_.words();
}

std::span<const uint32_t> ToolCallConstraint::fill_key() {
  mask_.clear();
  const std::vector<ArgumentRule>& arguments = rule().arguments;
  if (rule().any_key) {
    mask_ = plan_->key_text;
    if (state_.written.empty()) mask_.reset(tag(OutputTag::key_close));
    return mask_.words();
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (state_.used[i]) continue;
    if (allow_towards(*plan_->table, arguments[i].key, state_.written, mask_))
      mask_.set(tag(OutputTag::key_close));
  }
  return mask_.words();
}

std::span<const uint32_t> ToolCallConstraint::fill_value() {
  if (state_.match != nullptr) return fill_match();
  if (state_.argument < 0 || argument().kind == ArgumentRule::Kind::any_text)
    return plan_->value_text.words();
  mask_.clear();
  for (const std::string& text : argument().texts) {
    if (allow_towards(*plan_->table, text, state_.written, mask_)) mask_.set(tag(OutputTag::value_close));
  }
  return mask_.words();
}

std::span<const uint32_t> ToolCallConstraint::fill_match() {
  bool fresh = false;
  const std::span<uint32_t> kept = masks_.at(position_, fresh);
  if (fresh) state_.match->grammar->fill(kept);
  std::copy(kept.begin(), kept.end(), mask_.words().begin());
  return mask_.words();
}

// ------------------------------------------------------------------------------------------------ what has
// come

void ToolCallConstraint::push(TokenId token) {
  const auto place = static_cast<size_t>(position_) % kHistory;
  if (drafted_[place] != token) masks_.forget_after(position_);
  drafted_[place] = token;
  before_[place] = state_;
  advance(token);
  ++position_;
  known_ = false;
}

void ToolCallConstraint::pop(int64_t count) {
  GLINT_CHECK(count <= position_ && count < static_cast<int64_t>(kHistory));
  position_ -= count;
  state_ = before_[static_cast<size_t>(position_) % kHistory];
  known_ = false;
  if (state_.match == nullptr) return;
  Match& match = *state_.match;
  if (match.tokens > state_.matched) match.grammar->rollback(match.tokens - state_.matched);
  match.tokens = state_.matched;
}

void ToolCallConstraint::advance(TokenId token) {
  const auto stray = [this] { state_.phase = Phase::over; };
  switch (state_.phase) {
    case Phase::text:
      if (token == tag(OutputTag::call_open)) start_call();
      return;
    case Phase::begin:
    case Phase::between:
      if (token == tag(OutputTag::call_open)) return start_call();
      if (state_.phase == Phase::between) return stray();
      state_.phase = Phase::content;
      [[fallthrough]];
    case Phase::content:
      if (state_.match == nullptr || !state_.match->grammar->accept(token)) return stray();
      state_.matched = ++state_.match->tokens;
      return;
    case Phase::name:
      return write(token) ? void() : close_name(token);
    case Phase::key:
      if (write(token)) return;
      return token == tag(OutputTag::key_close) ? close_key() : stray();
    case Phase::value_open:
      return token == tag(OutputTag::value_open) ? open_value() : stray();
    case Phase::value:
      return advance_value(token);
    case Phase::pair_end:
      return end_pair(token);
    case Phase::over:
      return;
  }
}

/// True if the token is text, which then has been written.
bool ToolCallConstraint::write(TokenId token) {
  if (!plan_->table->ordinary().holds(token)) return false;
  state_.written += plan_->table->text(token);
  return true;
}

void ToolCallConstraint::start_call() {
  state_.phase = Phase::name;
  state_.written.clear();
  state_.match = nullptr;
}

void ToolCallConstraint::close_name(TokenId token) {
  const auto found = std::find_if(plan_->rules.begin(), plan_->rules.end(),
                                  [&](const ToolRule& tool) { return tool.name == state_.written; });
  if (found == plan_->rules.end()) {
    state_.phase = Phase::over;
    return;
  }
  state_.tool = static_cast<int32_t>(found - plan_->rules.begin());
  state_.used.assign(found->arguments.size(), false);
  end_pair(token);
}

/// Behind the name and behind each pair.
void ToolCallConstraint::end_pair(TokenId token) {
  if (token == tag(OutputTag::key_open)) {
    state_.phase = Phase::key;
    state_.written.clear();
  } else if (token == tag(OutputTag::call_close)) {
    end_call();
  } else {
    state_.phase = Phase::over;
  }
}

void ToolCallConstraint::close_key() {
  const std::vector<ArgumentRule>& arguments = rule().arguments;
  const auto found = std::find_if(arguments.begin(), arguments.end(), [&](const ArgumentRule& argument) {
    return argument.key == state_.written;
  });
  state_.argument = -1;
  if (found != arguments.end()) {
    state_.argument = static_cast<int32_t>(found - arguments.begin());
    state_.used[static_cast<size_t>(state_.argument)] = true;
  }
  state_.phase = Phase::value_open;
}

void ToolCallConstraint::open_value() {
  state_.phase = Phase::value;
  state_.written.clear();
  if (state_.argument < 0 || argument().kind != ArgumentRule::Kind::grammar) return;
  const TokenId close = tag(OutputTag::value_close);
  start_match(*argument().grammar, std::span(&close, 1));
}

void ToolCallConstraint::start_match(const CompiledGrammar& grammar, std::span<const TokenId> ends) {
  state_.match = std::make_shared<Match>(Match{grammar.start(ends), 0});
  state_.matched = 0;
}

void ToolCallConstraint::advance_value(TokenId token) {
  if (token == tag(OutputTag::value_close)) {
    state_.match = nullptr;
    state_.phase = Phase::pair_end;
  } else if (state_.match != nullptr) {
    if (state_.match->grammar->accept(token)) {
      state_.matched = ++state_.match->tokens;
    } else {
      state_.phase = Phase::over;
    }
  } else if (state_.argument >= 0 && argument().kind == ArgumentRule::Kind::one_of) {
    write(token);
  }
}

void ToolCallConstraint::end_call() {
  const bool free = plan_->calls == ToolCallPlan::Calls::may && !plan_->content;
  state_.phase = plan_->one_only ? Phase::over : free ? Phase::text : Phase::between;
}

}  // namespace glint
