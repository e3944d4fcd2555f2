#include "server/worker_pool.h"

#include <algorithm>
#include <utility>

namespace glint {

WorkerPool::WorkerPool(int threads) {
  const int count = std::max(2, threads);
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { run(); });
}

WorkerPool::~WorkerPool() {
  stop();
}

void WorkerPool::submit(std::function<void()> job, bool large) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    (large ? large_ : small_).push_back(std::move(job));
  }
  wake_.notify_one();
}

void WorkerPool::stop() {
  std::deque<std::function<void()>> dropped_small, dropped_large;  // destroyed without the lock
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped_small.swap(small_);
    dropped_large.swap(large_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

/// Under the lock. Small jobs first: a large one takes long anyway.
bool WorkerPool::take(std::function<void()>& job, bool& large) {
  large = small_.empty();
  if (large && (large_.empty() || large_running_ + 1 >= threads_.size())) return false;
  auto& queue = large ? large_ : small_;
  job = std::move(queue.front());
  queue.pop_front();
  if (large) ++large_running_;
  return true;
}

void WorkerPool::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    std::function<void()> job;
    bool large = false;
    if (!take(job, large)) {
      wake_.wait(lock);
      continue;
    }
    lock.unlock();
    job();
    job = nullptr;  // what it holds goes before the next job
    lock.lock();
    if (large) {
      --large_running_;
      wake_.notify_one();
    }
  }
}

}  // namespace glint
