// What the engine asks of a device: execute one described step.
#pragma once

#include <cstdint>
#include <vector>

#include "base/threads.h"
#include "cache/page_tier.h"
#include "checkpoint/config.h"
#include "engine/round.h"

namespace glint {

/// One step in plain numbers. Rows of one sequence are adjacent, in ascending position.
struct StepDescription {
  std::vector<int32_t> tokens, positions;  // [T]
  std::vector<int32_t> sequences;          // [T] which row of `pages`
  std::vector<int32_t> pages;              // [sequences][pages_stride]
  int64_t pages_stride = 0;
  int64_t context_max = 0;           // largest position + 1
  std::vector<int32_t> logits_rows;  // rows whose logits are wanted

  void clear();
  /// Takes memory for so many rows and page numbers.
  void reserve(size_t rows, size_t page_numbers);
};

/// One pass of the MTP layer over rows whose target rows were in the last execute(), or, for the later drafts
/// of a round, one row for each row of the pass before.
struct DraftDescription {
  StepDescription step;  // tokens[i] is the token at positions[i] + 1; logits_rows: the rows that draft
  std::vector<int32_t>
      source;         // [T] first pass: the row of the last execute() that holds the hidden state; later
                      // passes: which of the rows that drafted in the pass before (by order) goes on
  bool first = true;  // later passes use the lists of the first one and write no index keys

  void clear();
  void reserve(size_t rows, size_t page_numbers);
};

class ExpertLoad;

class Executor {
 public:
  virtual ~Executor() = default;
  [[nodiscard]] virtual const ModelConfig& config() const = 0;
  [[nodiscard]] virtual int64_t pages_total() const = 0;
  [[nodiscard]] virtual int64_t rows_max() const = 0;

  /// Runs the step; the cache rows of its tokens are written. Returns the logits of `logits_rows`, in order:
  /// float32 [logits_rows][vocab_size], valid until the next call. They may be changed in place.
  virtual float* execute(const StepDescription& step) = 0;

  /// Runs the MTP layer; only if the executor was made for it. Returns the logits of step.logits_rows as
  /// execute() does; the logits of execute() are then gone, but not its hidden states.
  virtual float* draft(const DraftDescription& draft) = 0;

  /// Runs decoding steps as rounds; null: it does not.
  virtual RoundRunner* rounds() { return nullptr; }

  /// The cache's pages as bytes, for a tier; nullptr if the device does not offer them.
  virtual PageMemory* page_memory() { return nullptr; }

  /// How the router used the experts; null: not counted, or a model without experts.
  [[nodiscard]] virtual const ExpertLoad* expert_load() const { return nullptr; }

  /// Threads of this process that are idle between the calls above; null: none.
  virtual ThreadPool* threads() { return nullptr; }
};

}  // namespace glint
