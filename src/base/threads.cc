#include "base/threads.h"

#include <sched.h>

#include <exception>
#include <utility>

#include "base/error.h"
#include "base/spin.h"

namespace glint {

namespace {

// About 30 microseconds: operations follow each other closely inside a step, so a short spin saves the
// wake-up; after that a waiting thread sleeps, so that an idle server costs nothing.
constexpr int kSpins = 2000;

template <class T>
void wait_while(const std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause_cpu();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return 1;
}

ThreadPool::ThreadPool(int threads) {
  if (threads < 0) fail(ErrorKind::bad_input, "threads must be at least 1, got ", threads);
  const int count = threads == 0 ? usable_cpus() : threads;
  for (int worker = 1; worker < count; ++worker)
    workers_.emplace_back([this, worker] { worker_loop(worker); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::take_items(int worker) {
  for (int64_t item = next_.fetch_add(1, std::memory_order_relaxed); item < items_;
       item = next_.fetch_add(1, std::memory_order_relaxed)) {
    try {
      call_(context_, item, worker);
    } catch (...) {
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
  }
}

void ThreadPool::run_shared(int64_t items, Trampoline call, const void* context) {
  call_ = call;
  context_ = context;
  items_ = items;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  take_items(0);
  for (int busy = busy_.load(std::memory_order_acquire); busy != 0;
       busy = busy_.load(std::memory_order_acquire)) {
    wait_while(busy_, busy);
  }
  if (failed_.exchange(false)) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::worker_loop(int worker) {
  uint32_t seen = 0;
  for (;;) {
    wait_while(epoch_, seen);
    // A run cannot start before all workers left the last one, so no epoch is skipped.
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    take_items(worker);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace glint
