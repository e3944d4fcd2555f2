#include "engine/step_ring.h"

#include <algorithm>
#include <cstdio>

namespace glint {

void StepRing::begin(const StepRecord& record) {
  const std::lock_guard lock(mutex_);
  StepRecord& slot = records_[begun_ % kSteps];
  slot = record;
  slot.number = ++begun_;
}

void StepRing::finish(const StepRecord& record) {
  const std::lock_guard lock(mutex_);
  GLINT_CHECK(begun_ > 0);
  StepRecord& slot = records_[(begun_ - 1) % kSteps];
  slot = record;
  slot.number = begun_;
}

uint64_t StepRing::steps() const {
  const std::lock_guard lock(mutex_);
  return begun_;
}

std::vector<StepRecord> StepRing::copy() const {
  std::vector<StepRecord> records;
  records.reserve(kSteps);  // not under the lock: the engine must not wait for memory
  const std::lock_guard lock(mutex_);
  const uint64_t kept = std::min<uint64_t>(begun_, kSteps);
  for (uint64_t i = begun_ - kept; i < begun_; ++i) records.push_back(records_[i % kSteps]);
  return records;
}

std::string describe_record(const StepRecord& record, EngineClock::time_point now) {
  const double age_s = std::chrono::duration<double>(now - record.begin).count();
  char text[320];
  const int head =
      std::snprintf(text, sizeof text,
                    "step %llu: began %.3f s ago, %d sequences, %d tokens, %d sampled, %d running, %d "
                    "waiting, %d pages held",
                    static_cast<unsigned long long>(record.number), age_s, record.sequences, record.tokens,
                    record.sampled, record.running, record.waiting, record.pages_held);
  std::string line(text, static_cast<size_t>(head));
  if (!record.finished) return line + ", still running";
  const int tail =
      std::snprintf(text, sizeof text,
                    ", scheduling %.0f us, executing %.0f us, sampling %.0f us, drafting %.0f us, "
                    "handing out %.0f us",
                    static_cast<double>(record.schedule_us), static_cast<double>(record.execute_us),
                    static_cast<double>(record.sample_us), static_cast<double>(record.draft_us),
                    static_cast<double>(record.hand_out_us));
  return line.append(text, static_cast<size_t>(tail));
}

}  // namespace glint
