// Which pages of a cache are free. Plain bookkeeping; the memory is PagedCache's.
#pragma once

#include <cstdint>
#include <vector>

namespace glint {

/// Not thread-safe: it belongs to the engine's thread.
class PageAllocator {
 public:
  explicit PageAllocator(int64_t pages);

  [[nodiscard]] int64_t total() const { return static_cast<int64_t>(held_.size()); }
  [[nodiscard]] int64_t free() const { return static_cast<int64_t>(free_.size()); }

  /// A page for the caller alone; there must be a free one. Its contents are undefined.
  int32_t take();
  /// The page must be held.
  void give_back(int32_t page);

 private:
  std::vector<int32_t> free_;
  std::vector<bool> held_;
};

}  // namespace glint
