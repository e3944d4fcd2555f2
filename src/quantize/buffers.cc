#include "quantize/buffers.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/error.h"

namespace glint::quantize {

namespace {

constexpr int64_t kUnit = int64_t{2} << 20;  // huge pages where the system gives them
constexpr int64_t kSmallUnit = int64_t{64} << 10;

}  // namespace

struct BufferPool::Store {
  struct Free {
    std::byte* memory;
    int64_t bytes;
  };
  std::mutex mutex;
  std::vector<Free> free;
  int64_t bytes = 0;
  int64_t peak = 0;

  ~Store() {
    for (const Free& each : free) ::munmap(each.memory, static_cast<size_t>(each.bytes));
  }

  /// The smallest one that fits and wastes no more than it holds; nullptr if there is none.
  std::byte* reuse(int64_t& wanted) {
    auto best = free.end();
    for (auto at = free.begin(); at != free.end(); ++at) {
      if (at->bytes >= wanted && at->bytes <= 2 * wanted && (best == free.end() || at->bytes < best->bytes))
        best = at;
    }
    if (best == free.end()) return nullptr;
    std::byte* const memory = best->memory;
    wanted = best->bytes;
    free.erase(best);
    return memory;
  }

  /// Gives idle buffers back until few are left, so that new sizes do not add to old ones.
  void trim() {
    int64_t idle = 0;
    for (const Free& each : free) idle += each.bytes;
    while (idle > kIdleBytes) {
      ::munmap(free.back().memory, static_cast<size_t>(free.back().bytes));
      bytes -= free.back().bytes;
      idle -= free.back().bytes;
      free.pop_back();
    }
  }
};

int64_t BufferPool::rounded(int64_t bytes) {
  const int64_t unit = bytes < kUnit / 2 ? kSmallUnit : kUnit;
  return (std::max<int64_t>(bytes, 1) + unit - 1) / unit * unit;
}

BufferPool::BufferPool() : store_(std::make_shared<Store>()) {}

Buffer BufferPool::take(int64_t bytes) {
  int64_t size = rounded(bytes);
  std::byte* memory = nullptr;
  {
    const std::lock_guard lock(store_->mutex);
    memory = store_->reuse(size);
    if (memory == nullptr) {
      store_->trim();
      void* const fresh = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (fresh == MAP_FAILED)
        fail(ErrorKind::io, "no memory for a buffer of ", size, " bytes: give fewer --workers");
      if (size >= kUnit) (void)::madvise(fresh, static_cast<size_t>(size), MADV_HUGEPAGE);
      memory = static_cast<std::byte*>(fresh);
      store_->bytes += size;
      store_->peak = std::max(store_->peak, store_->bytes);
    }
  }
  Buffer buffer;
  buffer.size_ = bytes;
  buffer.memory_ = std::shared_ptr<std::byte>(memory, [store = store_, size](std::byte* back) {
    const std::lock_guard lock(store->mutex);
    store->free.push_back({back, size});
  });
  return buffer;
}

int64_t BufferPool::peak_bytes() const {
  const std::lock_guard lock(store_->mutex);
  return store_->peak;
}

}  // namespace glint::quantize
