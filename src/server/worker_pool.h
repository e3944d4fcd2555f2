// A few threads for the work that must not hold an io thread: parsing, rendering and tokenizing request
// bodies.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace glint {

class WorkerPool {
 public:
  /// At least two threads, so that large jobs, which may hold all threads but one, never keep small ones
  /// waiting.
  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Any thread. Jobs of one size start in the order of the calls. A job must not throw. Dropped after
  /// stop().
  void submit(std::function<void()> job, bool large);
  /// Waits for running jobs, drops waiting ones. Idempotent.
  void stop();

 private:
  void run();
  bool take(std::function<void()>& job, bool& large);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> small_, large_;
  size_t large_running_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace glint
