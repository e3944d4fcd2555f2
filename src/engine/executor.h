// What the engine asks of a device: execute one described step.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/config.h"

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
};

class Executor {
 public:
  virtual ~Executor() = default;
  [[nodiscard]] virtual const ModelConfig& config() const = 0;
  [[nodiscard]] virtual int64_t pages_total() const = 0;
  [[nodiscard]] virtual int64_t rows_max() const = 0;

  /// Runs the step; the cache rows of its tokens are written. Returns the logits of `logits_rows`, in order:
  /// float32 [logits_rows][vocab_size], valid until the next call. They may be changed in place.
  virtual float* execute(const StepDescription& step) = 0;
};

}  // namespace glint
