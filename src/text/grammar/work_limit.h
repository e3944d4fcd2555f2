// How much processor time xgrammar may take for one thing. The library cannot be told to stop, so the
// function in which its time goes, EarleyParser::Advance, is wrapped by the linker (cmake/Xgrammar.cmake) and
// looks at the limit of its thread first.
#pragma once

#include <chrono>
#include <exception>

namespace glint {

class WorkLimitReached : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "the work limit has been reached"; }
};

/// Of the thread that makes it, while it lives; the innermost counts.
class WorkLimit {
 public:
  /// check() throws once this thread has worked so long since now.
  explicit WorkLimit(std::chrono::microseconds most);
  ~WorkLimit();
  WorkLimit(const WorkLimit&) = delete;
  WorkLimit& operator=(const WorkLimit&) = delete;

  /// Processor time of the thread since the beginning.
  [[nodiscard]] std::chrono::microseconds used() const;
  /// Throws WorkLimitReached. Nothing without a limit.
  static void check();

 private:
  std::chrono::nanoseconds begin_;
  std::chrono::nanoseconds end_;
  std::chrono::steady_clock::time_point look_;  // not before then can the end have come
  WorkLimit* outer_;
};

}  // namespace glint
