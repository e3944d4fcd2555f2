// Decides which rows run in a step and which pages they write. Plain bookkeeping: no threads, no clock, no
// text.
//
// Why something always progresses: a request is admitted only if it could run alone in the whole pool. The
// oldest running sequence is never preempted for another, and preempting all others frees every page it may
// need; so each step with anything to do contains rows of the oldest running sequence or admits one. A
// waiting request can be passed by younger ones at most kPassesMax times before nothing is admitted ahead of
// it; running sequences end by themselves.
//
// With a tier, a request whose prompt continues in it is admitted, but has no rows until the loads of those
// pages have ended, well or not. Every load ends (page_tier.h), so then the above holds again. The tier's own
// claims on pages give way: what waits to be written or read is withdrawn when its page is needed, and what
// is just being copied in memory ends soon; only for that a step may be empty though something runs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cache/page_pool.h"
#include "cache/page_tier.h"
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
  int64_t prompt_logprob_rows = 64;  // rows of a step, >= 1, whose logits may be wanted for prompt logprobs
};

/// A sequence's part of a step: rows for its positions [computed, computed + rows); positions from length()
/// on are its drafts.
struct ScheduledRows {
  Sequence* sequence = nullptr;
  int64_t rows = 0;
  bool samples =
      false;  // the rows reach the last token: tokens are taken from its logits and from those of the drafts
  bool decodes = false;  // all but the last token and the drafts had been computed before

  /// Rows whose logits are wanted: those that report on the prompt, then those that tokens are taken from.
  /// Before the tokens have been taken.
  [[nodiscard]] int64_t logits_rows() const;
};

struct SchedulerCounts {
  uint64_t preemptions = 0;
  uint64_t prefix_queries_tokens = 0;  // tokens of admitted sequences that were looked up
  uint64_t prefix_hits_tokens = 0;     // of those, found in the cache
  uint64_t tier_queries_tokens = 0;    // tokens that were then looked up in the tier
  uint64_t tier_hits_tokens = 0;       // of those, restored from it
};

class Scheduler {
 public:
  /// Younger requests that may start while an older one waits for pages.
  static constexpr int64_t kPassesMax = 16;

  /// `tier`, if any, must outlive the scheduler's use.
  Scheduler(const SchedulerOptions& options, int64_t pages, PageTier* tier = nullptr);

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

  /// The next step's rows; empty only if nothing waits or runs, or if waiting_for_tier(). Sequences that
  /// decode come first, oldest first, one row and their drafts each. What is left of the budget goes to
  /// prompts, oldest first, the oldest taking at most half of it while another could use the rest, so that a
  /// short prompt passes a long one.
  const std::vector<ScheduledRows>& schedule();

  /// The decoding sequences' rows alone: nothing is admitted, no page changes hands. For a step whose pages
  /// are held.
  const std::vector<ScheduledRows>& schedule_decodes_alone();
  /// The next schedule() may have more rows than the last though nothing arrives: what was put off for a
  /// preemption, or what a load that ends, or takes too long, lets go on.
  [[nodiscard]] bool wants_a_look() const;

  /// Gives every sequence of the step pages for so many tokens beyond its length, whatever its end, as far as
  /// that takes no page from anyone. False if there are not enough: what was given stays.
  bool hold_pages(int64_t tokens);

  /// The rows of the last schedule() have been computed and the tokens taken: per part, `computed` grows by
  /// `valid[i]` rows (all but those of refused drafts). Full pages are published.
  void commit(const std::vector<int64_t>& valid);

  /// Between steps: no sequence that is admitted from now on finds a page that was published until now. What
  /// runs keeps its pages, or with reset.running waits again.
  void forget_pages(CacheReset reset);

  /// True if copies to or from the tier are under way: when one has ended, schedule() may have more rows.
  [[nodiscard]] bool waiting_for_tier() const { return tier_copies_ > 0; }
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
  /// Rows of a prompt for `share` of the budget, of which at most `scored` report on the prompt; 0 only for
  /// that.
  [[nodiscard]] int64_t prompt_rows(const Sequence& sequence, double share, int64_t scored) const;
  void add_prompt(Sequence& sequence, int64_t others);
  void extend_prompts();
  int64_t attach_prefix(Sequence& sequence);
  const PageHash& page_hash(Sequence& sequence, int64_t page) const;
  void publish(Sequence& sequence);
  void let_go(Sequence& sequence);

  // scheduler_tier.cc
  void offer(Sequence& sequence, int64_t page);
  bool reclaim();
  [[nodiscard]] int64_t reclaimable() const;
  [[nodiscard]] bool restored_by_another(Sequence& sequence) const;
  void start_restore(Sequence& sequence);
  bool load_page(Sequence& sequence, const PageHash& hash);
  void end_restore(Sequence& sequence);
  void cancel_loads(Sequence& sequence, int64_t from);
  void take_tier_events();
  void loaded(int32_t page, bool ok);
  void release_or_leave(int32_t page);

  /// What the tier does with a page of the pool.
  struct TierCopy {
    enum class Kind { none, store, load, orphan } kind = Kind::none;  // orphan: a load that nobody waits for
    Sequence* owner = nullptr;                                        // of a load
    int64_t index = 0;                                                // of the page in its owner
  };

  SchedulerOptions options_;
  PagePool pool_;
  Sequences waiting_;  // in the order of Sequence::before
  Sequences running_;  // the same
  std::vector<ScheduledRows> step_;
  int64_t waiting_tokens_ = 0;
  double budget_ = 0;
  int64_t score_budget_ = 0;  // rows that may still report on prompts
  bool preempted_ = false;    // in this step
  SchedulerCounts counts_;
  PageTier* tier_ = nullptr;
  std::vector<TierCopy> copies_;   // by page
  int64_t tier_copies_ = 0;        // of any kind but none
  std::vector<int32_t> storing_;   // pages that are held for a store, oldest first
  std::vector<TierEvent> events_;  // reused
};

/// Writes a step's description, reusing its memory.
void describe_step(const std::vector<ScheduledRows>& rows, StepDescription& out);

}  // namespace glint
