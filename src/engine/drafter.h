// Speculation: after a step, lets the MTP layer catch up with the rows that were computed and guess the next
// tokens.
//
// A guess is what the sampler takes from the MTP layer's logits by the same rule, with the same number of the
// same position, as it will take the real token from the model's logits. The guess is confirmed if both are
// equal; so guesses never change what is emitted, greedy or sampled.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/executor.h"
#include "engine/scheduler.h"
#include "engine/sequence_sampler.h"

namespace glint {

class Drafter {
 public:
  /// `tokens_max` drafts a sequence and step, 0 to kSpeculativeTokensMax; 0: nothing is ever drafted.
  Drafter(int64_t tokens_max, int64_t vocab_size) : tokens_max_(tokens_max), vocab_size_(vocab_size) {}

  /// Takes memory for steps of at most so many rows, sequences and page numbers.
  void reserve(size_t rows, size_t sequences, size_t page_numbers);

  /// After the step `description` of the parts `rows`, of whose rows valid[i] hold tokens (the sequences
  /// already hold the tokens taken in the step, their `computed` does not count the step yet): runs the MTP
  /// layer over those rows and fills the drafts of the sequences that go on, at most `tokens` each.
  /// With 0 tokens the layer runs over prompts only: the rows that it lacks then can make later drafts worse,
  /// never wrong.
  void draft(Executor& executor, SequenceSampler& sampler, const std::vector<ScheduledRows>& rows,
             const std::vector<int64_t>& valid, const StepDescription& description, int64_t tokens);

  /// Tells how many of a sequence's drafts the step confirmed.
  void count(int64_t drafted, int64_t accepted);
  [[nodiscard]] const DraftCounts& counts() const { return counts_; }

 private:
  struct Drafting {
    Sequence* sequence = nullptr;
    int64_t position = 0;  // of the row that drafted last
    int64_t wanted = 0;
    bool failed = false;  // its logits gave nothing
  };

  void describe_first(const std::vector<ScheduledRows>& rows, const std::vector<int64_t>& valid,
                      const StepDescription& description, int64_t tokens);
  bool describe_later();
  void take_drafts(SequenceSampler& sampler, float* logits);

  int64_t tokens_max_;
  int64_t vocab_size_;
  DraftCounts counts_;
  DraftDescription pass_;
  std::vector<Drafting> drafting_;
};

}  // namespace glint
