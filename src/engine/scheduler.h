// Decides which rows run in a step and which pages they write. Plain bookkeeping: no threads, no clock, no
// text.
//
// Why something always progresses: a request is admitted only if it could run alone in the whole pool. The
// oldest running sequence is never preempted for another, and preempting all others frees every page it may
// need; so each step with anything to do contains rows of the oldest running sequence or admits one. A
// waiting request can be passed by younger ones at most kPassesMax times before nothing is admitted ahead of
// it; running sequences end by themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cache/page_pool.h"
#include "engine/executor.h"
#include "engine/sequence.h"

namespace glint {

struct SchedulerOptions {
  int64_t max_num_seqs = 16;              // running at once
  int64_t max_num_batched_tokens = 2048;  // rows of a step, >= max_num_seqs * (drafts + 1)
  bool prefix_caching = true;
  /// Drafts of a sequence in one step, at most. A step may write, beyond the last token, the rows of so many
  /// drafts, and after accepting them those of the next drafts: pages for twice as many positions are held
  /// (never beyond tokens_max: the engine does not draft what could not be emitted).
  int64_t num_speculative_tokens = 0;
  /// A prompt row at context c costs 1 + c / context_cost_tokens rows of the budget, so that a step takes as
  /// long at the end of a long prompt as at its start. 0: every row costs one.
  double context_cost_tokens = 0;
};

/// A sequence's part of a step: rows for its positions [computed, computed + rows); positions from length()
/// on are its drafts.
struct ScheduledRows {
  Sequence* sequence = nullptr;
  int64_t rows = 0;
  bool samples =
      false;  // the rows reach the last token: tokens are taken from its logits and from those of the drafts
  bool decodes = false;  // all but the last token and the drafts had been computed before
};

struct SchedulerCounts {
  uint64_t preemptions = 0;
  uint64_t prefix_queries_tokens = 0;  // tokens of admitted sequences that were looked up
  uint64_t prefix_hits_tokens = 0;     // of those, found
};

class Scheduler {
 public:
  /// Younger requests that may start while an older one waits for pages.
  static constexpr int64_t kPassesMax = 16;

  Scheduler(const SchedulerOptions& options, int64_t pages);

  /// True if a sequence of so many tokens could run alone.
  [[nodiscard]] bool fits(int64_t tokens_max) const;
  /// Pages that hold so many tokens.
  static int64_t pages_for(int64_t tokens);

  /// Takes the memory that the sequence will need here and hashes its prompt. Touches nothing of the
  /// scheduler: for any thread, before add().
  void prepare(Sequence& sequence) const;
  /// Moves one sequence out of `from` to those that wait.
  void add(SequenceList& from, SequenceList::iterator sequence);
  /// Lets go of the sequence's pages and moves it to `ended`. False if the id is unknown (ended already).
  bool remove(uint64_t id, SequenceList& ended);

  /// The next step's rows; empty only if nothing waits or runs. Sequences that decode come first, oldest
  /// first, one row and their drafts each. What is left of the budget goes to prompts, oldest first, the
  /// oldest taking at most half of it while another could use the rest, so that a short prompt passes a long
  /// one.
  const std::vector<ScheduledRows>& schedule();

  /// The rows of the last schedule() have been computed and the tokens taken: per part, `computed` grows by
  /// `valid[i]` rows (all but those of refused drafts). Full pages are published.
  void commit(const std::vector<int64_t>& valid);

  [[nodiscard]] bool idle() const { return waiting_.empty() && running_.empty(); }
  [[nodiscard]] int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  /// Tokens of the sequences that wait: their prompts, and what they had generated before a preemption.
  [[nodiscard]] int64_t waiting_tokens() const { return waiting_tokens_; }
  [[nodiscard]] int64_t running() const { return static_cast<int64_t>(running_.size()); }
  [[nodiscard]] const PagePool& pool() const { return pool_; }
  [[nodiscard]] const SchedulerCounts& counts() const { return counts_; }
  /// Every sequence that waits or runs.
  [[nodiscard]] std::vector<Sequence*> all();

 private:
  using Sequences = SequenceList;

  void schedule_decodes();
  void schedule_prompts();
  void admit_waiting();
  bool try_admit(Sequences::iterator candidate);
  [[nodiscard]] int64_t tokens_ahead(const Sequence& sequence) const;
  /// Gives the sequence pages up to `tokens`, preempting younger ones. False if it was itself preempted.
  bool reserve(Sequence& sequence, int64_t tokens);
  void preempt(Sequences::iterator victim);
  int64_t prompt_rows(const Sequence& sequence, double share) const;
  void add_prompt(Sequence& sequence, int64_t others);
  void extend_prompts();
  int64_t attach_prefix(Sequence& sequence);
  const PageHash& page_hash(Sequence& sequence, int64_t page) const;
  void publish(Sequence& sequence);
  void let_go(Sequence& sequence);

  SchedulerOptions options_;
  PagePool pool_;
  Sequences waiting_;  // by id
  Sequences running_;  // by id
  std::vector<ScheduledRows> step_;
  int64_t waiting_tokens_ = 0;
  double budget_ = 0;
  bool preempted_ = false;  // in this step
  SchedulerCounts counts_;
};

/// Writes a step's description, reusing its memory.
void describe_step(const std::vector<ScheduledRows>& rows, StepDescription& out);

}  // namespace glint
