// A tier without threads or files: what it does, and when, is up to the test.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "cache/page_tier.h"

namespace glint {

/// Pages are stood for by the tokens up to their end.
class SimulatedTier final : public PageTier {
 public:
  struct Counts {
    int stored = 0, loaded = 0, failed = 0, stores_withdrawn = 0, loads_withdrawn = 0, refused = 0;
    void add(const Counts& more) {
      stored += more.stored;
      loaded += more.loaded;
      failed += more.failed;
      stores_withdrawn += more.stores_withdrawn;
      loads_withdrawn += more.loads_withdrawn;
      refused += more.refused;
    }
  };
  using Tokens = std::vector<int32_t>;

  /// `slowness` 0 to 3: from prompt to rarely.
  explicit SimulatedTier(uint32_t slowness) : slowness_(slowness) {}
  /// What stands in the pages of the cache.
  void attach(std::map<int32_t, Tokens>& memory) { memory_ = &memory; }
  void put(const PageHash& hash, Tokens tokens) { kept_[hash.bytes] = std::move(tokens); }

  void listen(std::function<void()>) override {}
  [[nodiscard]] bool contains(const PageHash& hash) const override { return kept_.contains(hash.bytes); }
  void touch(std::span<const PageHash>) override {}
  bool store(const PageHash& hash, const PageHash&, int32_t page) override {
    return !contains(hash) && start({.page = page, .hash = hash});
  }
  bool load(const PageHash& hash, int32_t page) override {
    return contains(hash) && start({.page = page, .hash = hash, .loads = true});
  }
  bool withdraw(int32_t page) override {
    for (auto copy = copies_.begin(); copy != copies_.end(); ++copy) {
      if (copy->page != page) continue;
      if (copy->copying) break;
      ++(copy->loads ? counts_.loads_withdrawn : counts_.stores_withdrawn);
      copies_.erase(copy);
      return true;
    }
    ++counts_.refused;
    return false;
  }
  void forget_all() override { kept_.clear(); }
  void take_events(std::vector<TierEvent>& out) override {
    out.insert(out.end(), events_.begin(), events_.end());
    events_.clear();
  }
  [[nodiscard]] TierStats stats() const override { return {}; }

  /// Copies that were begun and whose events have not been taken.
  [[nodiscard]] int64_t under_way() const { return static_cast<int64_t>(copies_.size() + events_.size()); }
  /// The pages of those.
  void add_held(std::set<int32_t>& pages) const {
    for (const Copy& copy : copies_) pages.insert(copy.page);
    for (const TierEvent& event : events_) pages.insert(event.page);
  }
  [[nodiscard]] const Counts& counts() const { return counts_; }

  /// From here on the i-th copy cannot be withdrawn.
  void start_copying(size_t i) { copies_[i].copying = true; }
  void end(size_t i, bool ok) {
    const Copy copy = copies_[i];
    copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(i));
    ok = ok && (!copy.loads || contains(copy.hash));  // it may have been evicted meanwhile
    if (copy.loads) {
      ++(ok ? counts_.loaded : counts_.failed);
      if (memory_ != nullptr) (*memory_)[copy.page] = ok ? kept_[copy.hash.bytes] : Tokens{-1};
      if (!ok) kept_.erase(copy.hash.bytes);
    } else {
      ++counts_.stored;
      if (ok && memory_ != nullptr) kept_[copy.hash.bytes] = (*memory_)[copy.page];
    }
    events_.push_back({copy.page, ok});
  }
  void end_all(bool ok) {
    while (!copies_.empty()) end(0, ok);
  }
  /// Some random progress, some loss, and now and then everything at once.
  void work(std::mt19937& random) {
    while (!copies_.empty() && random() % (1U << slowness_) == 0) {
      const size_t i = random() % copies_.size();
      copies_[i].copying = true;
      if (random() % 2 == 0) end(i, random() % 8 != 0);
      if (random() % 4 == 0) break;
    }
    if (kept_.size() > 60) kept_.erase(std::next(kept_.begin(), static_cast<std::ptrdiff_t>(random() % 60)));
  }

 private:
  struct Copy {
    int32_t page = -1;
    PageHash hash;
    bool loads = false, copying = false;
  };

  bool start(const Copy& copy) {
    for (const Copy& other : copies_) EXPECT_NE(other.page, copy.page) << "two copies of one page";
    for (const TierEvent& event : events_) EXPECT_NE(event.page, copy.page) << "its event was not waited for";
    copies_.push_back(copy);
    return true;
  }

  uint32_t slowness_;
  std::map<int32_t, Tokens>* memory_ = nullptr;
  std::map<std::array<uint8_t, 32>, Tokens> kept_;
  std::deque<Copy> copies_;
  std::vector<TierEvent> events_;
  Counts counts_;
};

}  // namespace glint
