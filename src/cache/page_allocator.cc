#include "cache/page_allocator.h"

#include "base/error.h"

namespace glint {

PageAllocator::PageAllocator(int64_t pages) : held_(static_cast<size_t>(pages), false) {
  free_.reserve(static_cast<size_t>(pages));
  for (int64_t page = pages - 1; page >= 0; --page) free_.push_back(static_cast<int32_t>(page));
}

int32_t PageAllocator::take() {
  GLINT_CHECK(!free_.empty());
  const int32_t page = free_.back();
  free_.pop_back();
  held_[static_cast<size_t>(page)] = true;
  return page;
}

void PageAllocator::give_back(int32_t page) {
  GLINT_CHECK(page >= 0 && page < total() && held_[static_cast<size_t>(page)]);
  held_[static_cast<size_t>(page)] = false;
  free_.push_back(page);
}

}  // namespace glint
