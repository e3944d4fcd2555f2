// Decides which rows run in a step. Plain bookkeeping over token counts and pages: no threads, no clock, no
// text.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cache/page_allocator.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "text/stop_matcher.h"

namespace glint {

/// A request on its way through the engine.
struct Sequence {
  uint64_t id = 0;
  uint64_t user = 0;
  SamplingParams sampling;
  uint64_t seed = 0;
  std::vector<TokenId> tokens;  // prompt, then what was generated
  int64_t prompt_tokens = 0;
  int64_t computed = 0;    // positions whose cache rows are written
  int64_t tokens_max = 0;  // prompt + generated tokens at which it ends
  std::vector<int32_t> pages;
  std::optional<StopMatcher> stop;

  [[nodiscard]] int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  [[nodiscard]] int64_t generated() const { return length() - prompt_tokens; }
  /// All but the last token computed: one row a step.
  [[nodiscard]] bool decoding() const { return length() - computed == 1; }
};

struct SchedulerOptions {
  int64_t max_num_seqs = 16;              // running at once
  int64_t max_num_batched_tokens = 2048;  // rows of a step, >= max_num_seqs
};

/// A sequence's part of a step: rows for its positions [computed, computed + rows).
struct ScheduledRows {
  Sequence* sequence = nullptr;
  int64_t rows = 0;
  bool samples = false;  // its last row is the last known token: a token is taken from its logits
};

class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, int64_t pages);

  /// True if the sequence can run alone; a request that cannot is refused at the door.
  [[nodiscard]] bool fits(int64_t tokens_max) const;
  void add(std::unique_ptr<Sequence> sequence);
  /// Frees the sequence and its pages. False if the id is unknown (ended already).
  bool remove(uint64_t id);

  /// The next step's rows; empty if there is nothing to do. Sequences that decode come first, one row each;
  /// what is left of the budget goes to prompts in order of arrival, the oldest taking at most half of it
  /// while another prompt could use the rest, so that a short prompt passes a long one. A waiting request
  /// starts when a place is free and all pages that it may ever need are: what has started can always end.
  const std::vector<ScheduledRows>& schedule();

  /// The rows of the last schedule() have been computed.
  void commit();

  [[nodiscard]] bool idle() const { return waiting_.empty() && running_.empty(); }
  [[nodiscard]] int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  [[nodiscard]] int64_t running() const { return static_cast<int64_t>(running_.size()); }
  [[nodiscard]] int64_t pages_used() const { return pages_.total() - pages_.free(); }
  [[nodiscard]] int64_t pages_total() const { return pages_.total(); }
  /// Every sequence that waits or runs, oldest first.
  [[nodiscard]] std::vector<Sequence*> all();

 private:
  void start_waiting();
  void release(Sequence& sequence);

  SchedulerOptions options_;
  PageAllocator pages_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::list<std::unique_ptr<Sequence>> running_;
  std::vector<ScheduledRows> step_;
};

/// Writes a step's description, reusing its memory.
void describe_step(const std::vector<ScheduledRows>& rows, StepDescription& out);

}  // namespace glint
