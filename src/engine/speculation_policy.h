// How many tokens to draft (num_speculative_tokens "auto"): from what drafting and verifying has cost, and
// from how often drafts were confirmed.
//
// With k drafts a sequence gains E(k) = 1 + a_0 + a_0 a_1 + ... tokens a step, a_i being the share of the
// drafts at place i that were confirmed after those before them were. The step takes C(k) = the time to
// execute sequences * (k + 1) rows, plus the time to draft. The k with the largest E(k) / C(k) is taken; k =
// 0 is plain decoding and costs nothing extra. What is not used is not measured, so now and then one step
// tries a neighbouring k: at most one step in 64, rarer the longer it did not pay.
//
// The choice never changes what is emitted (see drafter.h), only when.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/engine.h"

namespace glint {

/// Seconds as a function of a size, from measurements at some sizes.
class CostTable {
 public:
  /// Sizes from 1 to `size_max` will be asked for.
  explicit CostTable(int64_t size_max);

  /// A new measurement; the newest count most.
  void measured(int64_t size, double seconds);
  [[nodiscard]] bool empty() const { return measured_ == 0; }
  /// Between measured sizes: on the line between them. Beyond: in proportion to the size above the largest,
  /// to its square root below the smallest (work shared by all rows does not shrink). 0 if nothing was
  /// measured.
  [[nodiscard]] double estimate(int64_t size) const;

 private:
  struct Entry {
    int64_t size = 0;     // the largest of its range: ranges are narrow where sizes are small
    double seconds = -1;  // -1: not measured
    int64_t at = 0;       // the size measured last
  };
  std::vector<Entry> entries_;
  int64_t measured_ = 0;
};

class SpeculationPolicy {
 public:
  /// At most `tokens_max` (1 to kSpeculativeTokensMax) drafts each for at most `sequences_max` sequences.
  SpeculationPolicy(int64_t tokens_max, int64_t sequences_max);

  /// How many tokens to draft for each of so many sequences, 0 to tokens_max.
  int64_t choose(int64_t sequences);

  /// Executing so many rows, all of sequences that decode, and taking their tokens took so long.
  void executed(int64_t rows, double seconds) { execute_.measured(rows, seconds); }
  /// Drafting `tokens` tokens for each of so many sequences took so long.
  void drafted(int64_t sequences, int64_t tokens, double seconds);
  /// Of a sequence's `tokens` drafts the first `accepted` were confirmed.
  void verified(int64_t tokens, int64_t accepted);

  /// Tokens a second and sequence that k drafts should give; for tests and logs. 0 if nothing is known.
  [[nodiscard]] double expected_rate(int64_t sequences, int64_t tokens) const;

 private:
  struct Acceptance {
    double confirmed = 0, tried = 0;
  };
  [[nodiscard]] double drafting_seconds(int64_t sequences, int64_t tokens) const;
  [[nodiscard]] int64_t best(int64_t sequences) const;
  int64_t neighbour();

  int64_t tokens_max_;
  CostTable execute_;
  std::vector<CostTable> drafting_;  // [tokens - 1], by sequences
  std::array<Acceptance, kSpeculativeTokensMax> acceptance_;
  int64_t current_ = 0;
  int64_t until_trial_;
  int64_t trial_interval_;
  bool trial_above_ = true;
};

}  // namespace glint
