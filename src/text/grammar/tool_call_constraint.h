// Tool calls that are valid by construction: an automaton over GLM's call format,
//   <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value>...</tool_call>
// whose tags are the atomic ids. The name is one of the tools', each key one that the tool declares and that
// has not come yet, each value what the key's rule allows, and the call ends only when all required keys have
// come. Tags do not occur inside names, keys and values (their characters may).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/grammar/text_constraint.h"
#include "text/grammar/tool_rules.h"
#include "text/token_constraint.h"

namespace glint {

/// What the calls of a request's answers share.
struct ToolCallPlan {
  enum class Calls : uint8_t {
    may,   // text goes free, a call is constrained
    must,  // nothing but calls, at least one
  };
  ToolCallPlan(std::vector<ToolRule> rules, Calls calls, bool one_only, const OutputTags& tags,
               std::shared_ptr<const TokenTable> table);

  std::vector<ToolRule> rules;
  Calls calls;
  bool one_only;  // the answer ends behind the first call
  /// Instead of free text, if there is one: the answer is either such a text or calls.
  std::shared_ptr<const CompiledGrammar> content;
  std::array<TokenId, kOutputTags> tags{};
  std::shared_ptr<const TokenTable> table;
  TokenMask value_text;  // ordinary tokens, </arg_value>
  TokenMask key_text;    // ordinary tokens, </arg_key>
  TokenMask endings;     // eos
};

class ToolCallConstraint final : public TokenConstraint {
 public:
  explicit ToolCallConstraint(std::shared_ptr<const ToolCallPlan> plan);

  std::span<const uint32_t> allowed() override;
  void push(TokenId token) override;
  void pop(int64_t count) override;

 private:
  enum class Phase : uint8_t {
    begin,       // nothing has been written
    text,        // free text
    content,     // text by the plan's grammar
    name,        // behind <tool_call>
    key,         // behind <arg_key>
    value_open,  // behind </arg_key>: <arg_value>
    value,       // behind <arg_value>
    pair_end,    // behind </arg_value>: another pair, or the end of the call
    between,     // behind </tool_call>
    over,        // only an end
  };
  struct Match {
    std::unique_ptr<GrammarMatch> grammar;
    int64_t tokens = 0;  // accepted, so that they can be taken back
  };
  struct State {
    Phase phase = Phase::begin;
    int32_t tool = -1;
    int32_t argument = -1;
    std::string written;     // of the name, key or value
    std::vector<bool> used;  // arguments
    std::shared_ptr<Match> match;
    int64_t matched = 0;  // its tokens at this state
  };
  static constexpr size_t kHistory = 16;  // more than a step drafts

  [[nodiscard]] TokenId tag(OutputTag tag) const { return plan_->tags[static_cast<size_t>(tag)]; }
  [[nodiscard]] const ToolRule& rule() const { return plan_->rules[static_cast<size_t>(state_.tool)]; }
  [[nodiscard]] const ArgumentRule& argument() const {
    return rule().arguments[static_cast<size_t>(state_.argument)];
  }
  [[nodiscard]] bool more_keys() const;
  [[nodiscard]] bool may_close() const;
  void allow_pair_or_close();
  std::span<const uint32_t> fill();
  std::span<const uint32_t> fill_name();
  std::span<const uint32_t> fill_key();
  std::span<const uint32_t> fill_value();
  std::span<const uint32_t> fill_match();
  void advance(TokenId token);
  void advance_value(TokenId token);
  void start_call();
  void start_match(const CompiledGrammar& grammar, std::span<const TokenId> ends);
  bool write(TokenId token);
  void close_name(TokenId token);
  void close_key();
  void open_value();
  void end_pair(TokenId token);
  void end_call();

  std::shared_ptr<const ToolCallPlan> plan_;
  State state_;
  std::vector<State> before_;     // by position % kHistory: the state in front of it
  std::vector<TokenId> drafted_;  // likewise: the token that was pushed there last
  MaskHistory masks_;             // of matches
  TokenMask mask_;
  std::span<const uint32_t> now_;
  bool known_ = false;  // now_ is for the present state
  int64_t position_ = 0;
};

}  // namespace glint
