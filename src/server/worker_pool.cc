#include "server/worker_pool.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace glint {

namespace {

/// What the thread is working on.
struct Current {
  WorkerPool* pool = nullptr;
  bool large = false;
};
thread_local Current current;

}  // namespace

struct WorkerPool::Aside {
  Aside(WorkerPool& of, bool is_large) : pool(of), large(is_large) {
    {
      const std::lock_guard lock(pool.mutex_);
      if (pool.aside_ >= pool.spare_)
        fail(ErrorKind::busy, "too many requests wait for a grammar to be compiled; try again");
      ++pool.aside_;
      --pool.running_;
      if (large) --pool.large_running_;
    }
    pool.wake_.notify_one();
  }
  ~Aside() {
    const std::lock_guard lock(pool.mutex_);
    --pool.aside_;
    ++pool.running_;
    if (large) ++pool.large_running_;
  }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  WorkerPool& pool;
  bool large;
};

WorkerPool::WorkerPool(int threads, int spare)
    : width_(static_cast<size_t>(std::max(2, threads))), spare_(static_cast<size_t>(std::max(0, spare))) {
  for (size_t i = 0; i < width_ + spare_; ++i) threads_.emplace_back([this] { run(); });
}

std::shared_ptr<void> WorkerPool::step_aside() {
  if (current.pool == nullptr) return nullptr;
  return std::make_shared<Aside>(*current.pool, current.large);
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
  if (running_ >= width_) return false;
  large = small_.empty();
  if (large && (large_.empty() || large_running_ + 1 >= width_)) return false;
  auto& queue = large ? large_ : small_;
  job = std::move(queue.front());
  queue.pop_front();
  ++running_;
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
    current = {this, large};
    job();
    job = nullptr;  // what it holds goes before the next job
    current = {};
    lock.lock();
    --running_;
    if (large) --large_running_;
    wake_.notify_one();  // one that waits may be free to go now
  }
}

}  // namespace glint
