// A request on its way through the engine.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "cache/page_hash.h"
#include "engine/engine.h"
#include "engine/token_rules.h"
#include "text/stop_matcher.h"

namespace glint {

struct Sequence {
  uint64_t id = 0;  // ascending in order of arrival
  uint64_t user = 0;
  bool internal = false;  // EngineRequest::internal
  int32_t priority = 0;   // lower goes first; 0 unless the engine goes by priority
  SamplingParams sampling;
  uint64_t seed = 0;
  std::vector<TokenId> tokens;  // prompt, then what was generated
  int64_t prompt_tokens = 0;
  int64_t tokens_max = 0;  // prompt + generated tokens at which it ends
  std::optional<StopMatcher> stop;
  TokenRules rules;           // have followed all generated tokens
  int64_t prompt_scored = 0;  // leading positions whose next token has been reported on; see prompt_logprobs
  bool ended = false;         // its last token has been taken

  int64_t computed = 0;  // leading positions whose cache rows are written
  std::vector<TokenId>
      drafts;  // guesses for the positions after the last token, to be verified in the next step
  std::vector<int32_t> pages;    // of the leading positions, 64 each
  PageHash chain;                // the root of its page hashes (depends on the salt)
  std::vector<PageHash> hashes;  // of the leading full pages, as far as they were needed
  int64_t pages_published = 0;   // leading pages that were found or offered under their hash
  // While pages of its prompt come from the tier (scheduler_tier.cc) it has no rows in a step.
  int64_t restore_pending = 0;  // loads under way
  int64_t restore_end = 0;      // pages before this one have come, or may still come
  int64_t passed_by = 0;        // younger requests that started while this one waited for pages

  RequestTimes times;

  /// Goes first: by priority, then by arrival. "Older" and "younger" of the scheduler mean this order.
  [[nodiscard]] bool before(const Sequence& other) const {
    return priority != other.priority ? priority < other.priority : id < other.id;
  }
  [[nodiscard]] int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  [[nodiscard]] int64_t generated() const { return length() - prompt_tokens; }
  [[nodiscard]] bool restoring() const { return restore_pending > 0; }
  /// The row at `position` is wanted for the logprob of the prompt's next token.
  [[nodiscard]] bool scores(int64_t position) const {
    return sampling.prompt_logprobs.has_value() && position >= prompt_scored && position + 1 < prompt_tokens;
  }
  /// Leading tokens whose pages may come from a cache: not the last one, whose logits are wanted, and none
  /// that still have to report on the prompt.
  [[nodiscard]] int64_t reusable() const {
    return sampling.prompt_logprobs ? std::min(length() - 1, prompt_scored) : length() - 1;
  }
  /// All but the last token computed: the next row gives a token.
  [[nodiscard]] bool decoding() const { return length() - computed == 1; }
};

/// Sequences move between lists by splicing, which takes no memory.
using SequenceList = std::list<std::unique_ptr<Sequence>>;

}  // namespace glint
