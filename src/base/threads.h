// A fixed pool of threads for data-parallel loops. The caller is worker 0.
//
// Work is cut into items; which worker takes which item is not fixed, so an item must compute its result
// without regard to who runs it (that is what makes results independent of the thread count).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace glint {

/// CPUs that this process may run on, at least 1.
int usable_cpus();

class ThreadPool {
 public:
  /// `threads` >= 1, the caller included. 0 means one per CPU that the process may use.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(item, worker) once for every item in [0, items), worker in [0, size()); returns when all are
  /// done. Not re-entrant, one caller at a time. The first exception of a body is rethrown here after all
  /// items ended.
  template <class Body>
  void run(int64_t items, const Body& body) {
    if (items <= 0) return;
    if (items == 1 || workers_.empty()) {
      for (int64_t item = 0; item < items; ++item) body(item, 0);
      return;
    }
    run_shared(
        items,
        [](const void* context, int64_t item, int worker) {
          (*static_cast<const Body*>(context))(item, worker);
        },
        &body);
  }

 private:
  using Trampoline = void (*)(const void* context, int64_t item, int worker);
  void run_shared(int64_t items, Trampoline call, const void* context);
  void take_items(int worker);
  void worker_loop(int worker);

  std::vector<std::thread> workers_;
  Trampoline call_ = nullptr;
  const void* context_ = nullptr;
  int64_t items_ = 0;
  std::exception_ptr failure_;
  std::atomic<bool> failed_{false};
  alignas(64) std::atomic<uint32_t> epoch_{0};
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace glint
