// How evenly the router of each layer uses its experts, over the recent tokens.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/model.h"

namespace glint {

/// Read by any thread.
class ExpertLoad {
 public:
  virtual ~ExpertLoad() = default;
  /// By layer: choices of its busiest expert over the mean of its experts: 1 if all are alike, `experts` if
  /// one takes everything; 0 before the first token and for a layer that never chooses. Old tokens fade: all
  /// counts are halved after the step with which a layer's experts were chosen 512 times each on average.
  [[nodiscard]] virtual std::vector<double> busiest_over_mean() const = 0;
};

/// The figure of one layer.
[[nodiscard]] double busiest_over_mean(std::span<const uint32_t> counts);

/// When the counts of a layer are halved.
class ExpertFading {
 public:
  explicit ExpertFading(int64_t experts) : experts_(experts) {}
  /// After so many more choices: true if all counts are to be halved now.
  bool add(int64_t choices);
  void clear() { total_ = 0; }

 private:
  int64_t experts_;
  int64_t total_ = 0;
};

/// Counts on the host what stands there. Written by the engine's thread alone.
class HostExpertLoad final : public ExpertLoad, public Probe {
 public:
  /// `layers`: with the MTP layer.
  HostExpertLoad(int64_t layers, int64_t experts);

  /// Counts one pass: what stands in `chosen` [rows][k] of host memory.
  void experts_chosen(int64_t layer, ops::Ops& ops, ops::Ints chosen) override;
  [[nodiscard]] std::vector<double> busiest_over_mean() const override;

 private:
  using Count = std::atomic<uint32_t>;

  int64_t layers_, experts_;
  std::unique_ptr<Count[]> counts_;   // [layers][experts]
  std::vector<ExpertFading> fading_;  // [layers], the writer's own
};

}  // namespace glint
