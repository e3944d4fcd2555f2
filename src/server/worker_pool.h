// A few threads for the work that must not hold an io thread: parsing, rendering and tokenizing request
// bodies.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace glint {

class WorkerPool {
 public:
  /// At least two threads, so that large jobs, which may hold all threads but one, never keep small ones
  /// waiting. `spare`: threads that work only in the place of jobs that have stepped aside.
  explicit WorkerPool(int threads, int spare = 0);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Any thread. Jobs of one size start in the order of the calls. A job must not throw. Dropped after
  /// stop().
  void submit(std::function<void()> job, bool large);
  /// Waits for running jobs, drops waiting ones. Idempotent.
  void stop();

  /// For a job that will take long, or wait, and must not keep others waiting: while what this returns lives,
  /// a spare thread works in the place of the calling one. Throws busy if no thread is spare. Outside of a
  /// job: does nothing.
  static std::shared_ptr<void> step_aside();

 private:
  struct Aside;
  void run();
  bool take(std::function<void()>& job, bool& large);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> small_, large_;
  size_t width_ = 0;  // jobs that may run at once, those aside apart
  size_t spare_ = 0;
  size_t running_ = 0, large_running_ = 0;  // those aside not counted
  size_t aside_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace glint
