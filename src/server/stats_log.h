// The lines about throughput that people grep for, once an interval.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/serving_metrics.h"

namespace glint {

class StatsLog {
 public:
  struct Line {
    bool idle = false;  // nothing ran: for the debug level
    std::string text;
  };

  /// The lines for the time since the last call; `seconds` is how long that was. One thread.
  std::vector<Line> lines(const EngineStats& stats, const ServingMetrics& requests, double seconds);
  /// Of the last interval. Any thread.
  [[nodiscard]] double generation_tokens_per_s() const { return generation_; }

 private:
  EngineStats before_;
  uint64_t prompt_before_ = 0, generated_before_ = 0;
  std::atomic<double> generation_{0};
};

}  // namespace glint
