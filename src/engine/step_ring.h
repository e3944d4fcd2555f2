// A flight recorder of the engine: the last steps, kept without taking memory.
#pragma once

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace glint {

class StepRing {
 public:
  static constexpr size_t kSteps = 1000;

  /// A step begins: it is number steps() from now on. Engine's thread.
  void begin(const StepRecord& record);
  /// Replaces the record of the step that began last.
  void finish(const StepRecord& record);
  /// Steps that have begun.
  [[nodiscard]] uint64_t steps() const;
  /// The last kSteps, oldest first. Any thread.
  [[nodiscard]] std::vector<StepRecord> copy() const;

 private:
  mutable std::mutex mutex_;
  std::array<StepRecord, kSteps> records_;
  uint64_t begun_ = 0;
};

/// One line for a record, `now` for how long an unfinished one has run.
std::string describe_record(const StepRecord& record, EngineClock::time_point now);

}  // namespace glint
