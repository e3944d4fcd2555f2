#include "cache/page_pool.h"

#include <bit>
#include <cstring>

#include "base/error.h"

namespace glint {

PagePool::PagePool(int64_t pages)
    : pages_(static_cast<size_t>(pages)),
      available_(pages),
      table_(std::bit_ceil(static_cast<size_t>(pages) * 2), kNone) {
  free_.reserve(pages_.size());
  for (int64_t page = pages - 1; page >= 0; --page) free_.push_back(static_cast<int32_t>(page));
}

int32_t PagePool::take() {
  GLINT_CHECK(available_ > 0);
  --available_;
  int32_t page = oldest_;
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else {
    unlink(page);
    forget(page);
  }
  pages_[static_cast<size_t>(page)].holders = 1;
  return page;
}

void PagePool::retain(int32_t page) {
  Page& entry = pages_[static_cast<size_t>(page)];
  GLINT_CHECK(entry.holders > 0);
  ++entry.holders;
}

void PagePool::release(int32_t page) {
  GLINT_CHECK(page >= 0 && page < total());
  Page& entry = pages_[static_cast<size_t>(page)];
  GLINT_CHECK(entry.holders > 0);
  if (--entry.holders > 0) return;
  ++available_;
  if (entry.published) {
    link_newest(page);
  } else {
    free_.push_back(page);
  }
}

bool PagePool::publish(int32_t page, const PageHash& hash) {
  Page& entry = pages_[static_cast<size_t>(page)];
  GLINT_CHECK(entry.holders > 0 && !entry.published);
  if (lookup(hash) >= 0) return false;
  entry.hash = hash;
  entry.published = true;
  ++published_;
  size_t slot = home(hash);
  while (table_[slot] != kNone) slot = (slot + 1) & (table_.size() - 1);
  table_[slot] = page;
  return true;
}

int32_t PagePool::find(const PageHash& hash) {
  const int32_t page = lookup(hash);
  if (page < 0) return kNone;
  Page& entry = pages_[static_cast<size_t>(page)];
  if (entry.holders++ == 0) {
    unlink(page);
    --available_;
  }
  return page;
}

void PagePool::forget_all() {
  while (oldest_ != kNone) {
    const int32_t page = oldest_;
    unlink(page);
    forget(page);
    free_.push_back(page);
  }
  for (size_t page = 0; page < pages_.size(); ++page) {
    if (pages_[page].published) forget(static_cast<int32_t>(page));
  }
}

void PagePool::link_newest(int32_t page) {
  Page& entry = pages_[static_cast<size_t>(page)];
  entry.previous = newest_;
  entry.next = kNone;
  (newest_ == kNone ? oldest_ : pages_[static_cast<size_t>(newest_)].next) = page;
  newest_ = page;
}

void PagePool::unlink(int32_t page) {
  Page& entry = pages_[static_cast<size_t>(page)];
  (entry.previous == kNone ? oldest_ : pages_[static_cast<size_t>(entry.previous)].next) = entry.next;
  (entry.next == kNone ? newest_ : pages_[static_cast<size_t>(entry.next)].previous) = entry.previous;
  entry.previous = entry.next = kNone;
}

void PagePool::forget(int32_t page) {
  Page& entry = pages_[static_cast<size_t>(page)];
  const size_t mask = table_.size() - 1;
  size_t hole = home(entry.hash);
  while (table_[hole] != page) hole = (hole + 1) & mask;
  // Close the hole: whatever follows and could stand nearer to its home moves up.
  for (size_t slot = (hole + 1) & mask; table_[slot] != kNone; slot = (slot + 1) & mask) {
    const size_t wanted = home(pages_[static_cast<size_t>(table_[slot])].hash);
    if (((slot - wanted) & mask) >= ((slot - hole) & mask)) {
      table_[hole] = table_[slot];
      hole = slot;
    }
  }
  table_[hole] = kNone;
  entry.published = false;
  --published_;
}

int32_t PagePool::lookup(const PageHash& hash) const {
  for (size_t slot = home(hash); table_[slot] != kNone; slot = (slot + 1) & (table_.size() - 1)) {
    if (pages_[static_cast<size_t>(table_[slot])].hash == hash) return table_[slot];
  }
  return kNone;
}

size_t PagePool::home(const PageHash& hash) const {
  uint64_t bits;
  std::memcpy(&bits, hash.bytes.data(), sizeof bits);
  return static_cast<size_t>(bits) & (table_.size() - 1);
}

}  // namespace glint
