// Which pages of the cache are free, held, or kept because their contents may serve again.
//
// A page that holds 64 computed tokens can be published under the hash of everything it depends on: the chain
// of all tokens up to its end, the model, the format, the tenant's salt (page_hash.h). A published page never
// changes. It can be held by several sequences; held by none, it stays findable until its memory is needed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cache/page_hash.h"

namespace glint {

/// Plain bookkeeping; the memory is PagedCache's. Takes no memory after construction. Not thread-safe: it
/// belongs to the engine's thread.
class PagePool {
 public:
  explicit PagePool(int64_t pages);

  [[nodiscard]] int64_t total() const { return static_cast<int64_t>(pages_.size()); }
  /// Pages that take() can give: free ones and published ones that nobody holds.
  [[nodiscard]] int64_t available() const { return available_; }
  [[nodiscard]] int64_t held() const { return total() - available_; }
  /// Published pages, held or not.
  [[nodiscard]] int64_t published() const { return published_; }

  /// A page for the caller, held once, contents undefined; available() must be above 0. If no page is free,
  /// the published page that was let go longest ago is forgotten and reused; pages let go in the same breath
  /// leave in the order of the calls, so a chain is let go from its end: leaves first.
  int32_t take();

  /// One more holder of a held page.
  void retain(int32_t page);
  /// One holder less. The last one frees the page, or leaves it findable if it is published.
  void release(int32_t page);

  /// Makes a held page findable. False, and nothing happens, if another page already stands under that hash.
  bool publish(int32_t page, const PageHash& hash);
  /// The page under that hash, held once more, or -1.
  int32_t find(const PageHash& hash);
  /// True if a page stands under that hash; nothing changes.
  [[nodiscard]] bool contains(const PageHash& hash) const { return lookup(hash) >= 0; }
  /// True if the page is published.
  [[nodiscard]] bool findable(int32_t page) const { return pages_[static_cast<size_t>(page)].published; }
  /// How often the page is held.
  [[nodiscard]] int32_t holders(int32_t page) const { return pages_[static_cast<size_t>(page)].holders; }
  /// Forgets every published page; held ones stay held.
  void forget_all();

 private:
  static constexpr int32_t kNone = -1;
  struct Page {
    int32_t holders = 0;
    int32_t previous = kNone, next = kNone;  // in the list of the findable pages that nobody holds
    bool published = false;
    PageHash hash;
  };

  void link_newest(int32_t page);
  void unlink(int32_t page);
  void forget(int32_t page);
  [[nodiscard]] int32_t lookup(const PageHash& hash) const;
  [[nodiscard]] size_t home(const PageHash& hash) const;

  std::vector<Page> pages_;
  std::vector<int32_t> free_;
  int32_t oldest_ = kNone, newest_ = kNone;
  int64_t available_ = 0;
  int64_t published_ = 0;
  std::vector<int32_t> table_;  // open addressing with linear probing, at most half full
};

}  // namespace glint
