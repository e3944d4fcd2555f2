// Decoding without waiting: steps in which every sequence decodes are taken as rounds, and the next round is
// started before the results of the one before have been looked at.
//
// What the host then learns too late costs a wasted part of one round, never a wrong token: a sequence that
// ended in a round has rows in the next one, whose results are left aside. While a round is under way nothing
// joins, is preempted or is aborted; rounds run ahead only until something asks for that.
//
// The pages of a sequence that ended go back at once, though the round under way still writes rows behind its
// end into them. That harms nobody: such rows lie behind everything that was published, the steps of the next
// owner come later in the device's order, and the tier is given pages by schedule() alone, which waits until
// no round is under way.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/round.h"
#include "engine/scheduler.h"

namespace glint {

class RunAhead {
 public:
  /// `rounds` may be null: then no step is a round. `drafts_max` as the scheduler's.
  RunAhead(RoundRunner* rounds, Scheduler& scheduler, int64_t drafts_max);
  /// Takes memory for so many sequences and page numbers.
  void reserve(size_t sequences, size_t page_numbers);

  /// A round was started ahead: the next step must be Scheduler::schedule_decodes_alone(), and be taken with
  /// run().
  [[nodiscard]] bool under_way() const { return started_ > 0; }
  /// Whether `rows`, all that the scheduler has to run, can be a round of `drafts` drafts a sequence: every
  /// sequence decodes, by no rules but temperature, min_p, top_k and top_p, without logprobs. If so, holds
  /// the pages for it.
  [[nodiscard]] bool takes(const std::vector<ScheduledRows>& rows, int64_t drafts);

  /// Runs the round of `rows`, which was started ahead or begins here with `drafts` drafts a sequence; starts
  /// the one that follows if `ahead` and nobody left since. `rows` may be empty if a round is under way.
  void run(const std::vector<ScheduledRows>& rows, int64_t drafts, bool ahead);

  /// Of the last run(), for part `i` of its rows: the tokens that the sequence gained,
  [[nodiscard]] std::span<const int32_t> tokens(size_t i) const;
  /// and its next guess number `n`; -1: none.
  [[nodiscard]] int32_t draft(size_t i, int64_t n) const;
  [[nodiscard]] int64_t drafts() const { return drafts_; }
  [[nodiscard]] const RoundResult& result() const { return result_; }
  /// Rows of that round, those of sequences that had left it included.
  [[nodiscard]] int64_t rows() const { return static_cast<int64_t>(slots_.size()) * (1 + drafts_); }

  /// Gives up on what is under way, after a failure.
  void abandon() { started_ = 0; }

 private:
  void begin(const std::vector<ScheduledRows>& rows, int64_t drafts);
  void follow(const std::vector<ScheduledRows>& rows);
  void describe_pages(const std::vector<ScheduledRows>& rows, int64_t tokens);
  [[nodiscard]] int64_t reach(const std::vector<ScheduledRows>& rows, int64_t tokens) const;

  RoundRunner* rounds_;
  Scheduler& scheduler_;
  int64_t drafts_max_;
  int64_t started_ = 0;
  int64_t drafts_ = 0;
  std::vector<uint64_t> slots_;  // ids of the sequences of the rounds, in order
  std::vector<size_t> slot_of_;  // of the parts of the last run()
  RoundDescription description_;
  RoundResult result_;
};

}  // namespace glint
