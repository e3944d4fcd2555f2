// Who of a load's requests may start, and who is over.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "bench/client/connection.h"

namespace glint::bench {

/// Shared by all threads of a load.
class LoadGate {
 public:
  LoadGate(size_t requests, int64_t max_concurrency) : left_(requests) {
    if (max_concurrency > 0) free_ = static_cast<size_t>(max_concurrency);
  }

  struct Waiting {
    size_t index;
    double since_s;
  };
  /// True if the request may start at once; else it is queued.
  bool enter(size_t index, double now) {
    const std::lock_guard lock(mutex_);
    if (free_ == 0) {
      waiting_.push_back({index, now});
      return false;
    }
    --free_;
    return true;
  }
  /// A request is over; the one that takes its place, if any waits.
  std::optional<Waiting> leave() {
    const std::lock_guard lock(mutex_);
    if (--left_ == 0) over_.notify_all();
    if (waiting_.empty()) {
      ++free_;
      return std::nullopt;
    }
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    return next;
  }
  /// Until all are over or the time has come; how many are not over.
  size_t wait(double until_s) {
    std::unique_lock lock(mutex_);
    const auto left = std::chrono::duration<double>(until_s - now_s());
    over_.wait_for(lock, left, [&] { return left_ == 0; });
    return left_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  size_t free_ = SIZE_MAX;
  size_t left_;
  std::deque<Waiting> waiting_;
};

}  // namespace glint::bench
