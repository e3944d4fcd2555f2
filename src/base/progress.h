// How far a long command is, on standard error: a bar on a terminal, now and then a plain line elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace glint {

/// "Loading  [#######             ]  35 %  0.35 of 1.00 GB, 1.2 GB/s, 1 s left": one line for `done` of
/// `total` bytes after `seconds`. Without a bar: the same without the brackets.
std::string progress_text(const std::string& label, int64_t done_bytes, int64_t total_bytes, double seconds,
                          bool bar);

/// Shows the progress of one task. Not thread-safe.
class Progress {
 public:
  /// Nothing is shown before the first update.
  explicit Progress(std::string label);

  /// Call as often as you like: a terminal is redrawn at most ten times a second, other outputs get a line at
  /// most every five seconds.
  void update(int64_t done_bytes, int64_t total_bytes);

  /// Shows the end and leaves the line. On outputs other than a terminal always one line, so that logs keep
  /// the time.
  void finish(int64_t total_bytes);

 private:
  using Clock = std::chrono::steady_clock;
  void show(int64_t done_bytes, int64_t total_bytes);

  std::string label_;
  bool terminal_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
};

}  // namespace glint
