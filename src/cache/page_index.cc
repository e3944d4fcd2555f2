#include "cache/page_index.h"

#include "base/error.h"

namespace glint {

void PageIndex::insert(Order::iterator before, const StoredPage& page) {
  if (places_.contains(page.hash)) return;
  places_.emplace(page.hash, order_.insert(before, page));
  bytes_ += page.bytes;
}

void PageIndex::add(const StoredPage& page) {
  insert(order_.end(), page);
}

void PageIndex::add_below(const StoredPage& page, const PageHash& parent) {
  const auto found = places_.find(parent);
  insert(found == places_.end() ? order_.end() : found->second, page);
}

void PageIndex::touch(std::span<const PageHash> chain) {
  for (auto hash = chain.rbegin(); hash != chain.rend(); ++hash) {
    const auto found = places_.find(*hash);
    if (found != places_.end()) order_.splice(order_.end(), order_, found->second);
  }
}

void PageIndex::remove(const PageHash& hash) {
  const auto found = places_.find(hash);
  if (found == places_.end()) return;
  bytes_ -= found->second->bytes;
  order_.erase(found->second);
  places_.erase(found);
}

StoredPage PageIndex::pop() {
  GLINT_CHECK(!order_.empty());
  const StoredPage page = order_.front();
  remove(page.hash);
  return page;
}

std::vector<StoredPage> PageIndex::take(uint64_t fingerprint) {
  std::vector<StoredPage> pages;
  for (const StoredPage& page : order_) {
    if (page.fingerprint == fingerprint) pages.push_back(page);
  }
  for (const StoredPage& page : pages) remove(page.hash);
  return pages;
}

std::vector<PageHash> PageIndex::order(uint64_t fingerprint) const {
  std::vector<PageHash> hashes;
  for (const StoredPage& page : order_) {
    if (page.fingerprint == fingerprint) hashes.push_back(page.hash);
  }
  return hashes;
}

}  // namespace glint
