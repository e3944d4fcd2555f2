// How evenly the router of each layer uses its experts, over the recent tokens.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/model.h"

namespace glint {

/// Written by the engine's thread alone, read by any.
class ExpertLoad final : public Probe {
 public:
  /// `layers`: with the MTP layer; those that never choose experts report nothing.
  ExpertLoad(int64_t layers, int64_t experts);

  /// Counts one pass: what stands in `chosen` [rows][k] of host memory.
  void experts_chosen(int64_t layer, ops::Ops& ops, ops::Ints chosen) override;

  [[nodiscard]] int64_t layers() const { return layers_; }
  /// Choices of the layer's busiest expert over the mean of its experts: 1 if all are alike, `experts` if one
  /// takes everything; 0 before the first token. Old tokens fade: all counts are halved whenever a layer's
  /// experts were chosen 512 times each on average.
  [[nodiscard]] double busiest_over_mean(int64_t layer) const;

 private:
  using Count = std::atomic<uint32_t>;
  [[nodiscard]] Count* counts(int64_t layer) const { return counts_.get() + layer * experts_; }

  int64_t layers_, experts_;
  std::unique_ptr<Count[]> counts_;  // [layers][experts]
  std::vector<int64_t> totals_;      // [layers], the writer's own
};

}  // namespace glint
