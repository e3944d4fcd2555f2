// Which pages a tier has, in the order in which they are given up.
#pragma once

#include <cstdint>
#include <cstring>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/page_folder.h"

namespace glint {

/// Least recently used first. Not thread-safe.
class PageIndex {
 public:
  [[nodiscard]] bool contains(const PageHash& hash) const { return places_.contains(hash); }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] int64_t pages() const { return static_cast<int64_t>(order_.size()); }

  /// As the most recently used. Nothing if it is there.
  void add(const StoredPage& page);
  /// Just before its parent leaves, if the parent is here; else as above.
  void add_below(const StoredPage& page, const PageHash& parent);
  /// The chain's pages, as far as they are here, become the most recently used, the first page last.
  void touch(std::span<const PageHash> chain);
  void remove(const PageHash& hash);
  /// Takes out the least recently used page; there must be one.
  StoredPage pop();
  /// Takes out all pages with that fingerprint.
  std::vector<StoredPage> take(uint64_t fingerprint);
  /// Of the pages with that fingerprint, least recently used first.
  [[nodiscard]] std::vector<PageHash> order(uint64_t fingerprint) const;

 private:
  struct Hash {
    size_t operator()(const PageHash& hash) const {
      size_t bits;  // they are uniform as they are
      std::memcpy(&bits, hash.bytes.data(), sizeof bits);
      return bits;
    }
  };
  using Order = std::list<StoredPage>;

  void insert(Order::iterator before, const StoredPage& page);

  Order order_;
  std::unordered_map<PageHash, Order::iterator, Hash> places_;
  int64_t bytes_ = 0;
};

}  // namespace glint
