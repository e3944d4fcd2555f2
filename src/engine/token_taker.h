// Takes the tokens of a step from its logits: for each sequence one, and one more for each draft that is
// confirmed; and reports on the prompt's tokens where that was asked for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run_ahead.h"
#include "engine/scheduler.h"
#include "engine/sequence_sampler.h"

namespace glint {

/// What a part of a step came to.
struct TakenPart {
  int64_t valid = 0;  // leading rows that hold the sequence's tokens
  bool sampled = false;
  bool unusable = false;  // ended by logits that give no token
  int64_t drafted = 0;
  int64_t accepted = 0;
  bool has_output = false;
  StepOutput output;
};

class TokenTaker {
 public:
  TokenTaker(SequenceSampler& sampler, int64_t vocab_size) : sampler_(sampler), vocab_size_(vocab_size) {}
  /// Takes the memory for steps of so many parts and tokens of a part.
  void reserve(size_t parts, size_t tokens);

  /// `logits`: float32 [rows that describe_step() asked for][vocab_size]; changed. The sequences grow by what
  /// was taken, and are marked where they end. One entry for each part, which stays until the next call;
  /// outputs may be moved out. The parts are spread over the sampler's lanes.
  std::span<TakenPart> take(const std::vector<ScheduledRows>& rows, float* logits);

  /// The same for a step that was taken as a round: its tokens have been sampled.
  std::span<TakenPart> take(const std::vector<ScheduledRows>& rows, const RunAhead& round);

 private:
  void begin_part(const ScheduledRows& part, TakenPart& taken) const;
  void take_part(const ScheduledRows& part, float* logits, TakenPart& taken, int lane) const;
  /// Reports on the prompt's tokens behind the part's rows; moves `logits` behind their rows. False after an
  /// error.
  bool score(const ScheduledRows& part, float*& logits, StepOutput& output, int lane) const;
  /// Appends tokens as long as the drafts are confirmed; next(row) gives the one of row 0, 1, ...
  template <class Next>
  void take_tokens(const ScheduledRows& part, TakenPart& taken, const Next& next) const;
  bool append(Sequence& sequence, TokenId token, StepOutput& output) const;

  SequenceSampler& sampler_;
  int64_t vocab_size_;
  std::vector<TakenPart> taken_;  // the step's parts first; the rest is memory for later
  std::vector<float*> logits_;    // of each part
};

}  // namespace glint
