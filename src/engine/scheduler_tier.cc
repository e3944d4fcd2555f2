// What the scheduler does with a second home for pages: offers what it publishes, restores what it misses.
#include <algorithm>

#include "base/error.h"
#include "engine/scheduler.h"
#include "ops/types.h"

namespace glint {

namespace {

constexpr int64_t kPage = ops::kPageTokens;

}  // namespace

/// A page that was just published is held until the tier has its copy.
void Scheduler::offer(Sequence& sequence, int64_t page) {
  const int32_t offered = sequence.pages[static_cast<size_t>(page)];
  const PageHash& parent = page == 0 ? sequence.chain : page_hash(sequence, page - 1);
  if (!tier_->store(page_hash(sequence, page), parent, offered)) return;
  pool_.retain(offered);
  copies_[static_cast<size_t>(offered)] = {.kind = TierCopy::Kind::store};
  storing_.push_back(offered);
  ++tier_copies_;
}

/// Takes back a store that alone keeps its page from being used; the newest, because a page serves only with
/// those before it. False if there is none.
bool Scheduler::reclaim() {
  for (size_t i = storing_.size(); i-- > 0;) {
    const int32_t page = storing_[i];
    if (pool_.holders(page) > 1 || !tier_->withdraw(page)) continue;
    storing_.erase(storing_.begin() + static_cast<std::ptrdiff_t>(i));
    copies_[static_cast<size_t>(page)] = {};
    --tier_copies_;
    pool_.release(page);
    return true;
  }
  return false;
}

/// How many pages reclaim() could bring, those included that are just being copied.
int64_t Scheduler::reclaimable() const {
  return std::count_if(storing_.begin(), storing_.end(),
                       [&](int32_t page) { return pool_.holders(page) == 1; });
}

/// True if the first page that the sequence lacks is being restored for another: it will soon be found.
bool Scheduler::restored_by_another(Sequence& sequence) const {
  const size_t missing = sequence.pages.size();
  if (tier_ == nullptr || static_cast<int64_t>(missing) >= sequence.reusable() / kPage) return false;
  return std::any_of(running_.begin(), running_.end(), [&](const auto& other) {
    return other->restoring() && missing < static_cast<size_t>(other->restore_end) &&
           missing >= static_cast<size_t>(other->pages_published) &&
           other->hashes[missing] == page_hash(sequence, static_cast<int64_t>(missing));
  });
}

void Scheduler::start_restore(Sequence& sequence) {
  const int64_t candidates = sequence.reusable() / kPage;
  const auto found = static_cast<int64_t>(sequence.pages.size());
  if (!sequence.internal)
    counts_.tier_queries_tokens += static_cast<uint64_t>(sequence.length() - sequence.computed);
  // try_admit() saw to it that the pages of the whole prompt are available.
  for (int64_t page = found; page < candidates; ++page) {
    const PageHash& hash = page_hash(sequence, page);
    const int32_t kept = pool_.find(hash);
    if (kept >= 0) {
      sequence.pages.push_back(kept);
    } else if (!load_page(sequence, hash)) {
      break;
    }
  }
  sequence.restore_end = static_cast<int64_t>(sequence.pages.size());
  if (!sequence.restoring()) end_restore(sequence);
}

bool Scheduler::load_page(Sequence& sequence, const PageHash& hash) {
  if (!tier_->contains(hash)) return false;
  const int32_t page = pool_.take();
  if (!tier_->load(hash, page)) {
    pool_.release(page);
    return false;
  }
  copies_[static_cast<size_t>(page)] = {
      .kind = TierCopy::Kind::load, .owner = &sequence, .index = static_cast<int64_t>(sequence.pages.size())};
  sequence.pages.push_back(page);
  ++sequence.restore_pending;
  ++tier_copies_;
  return true;
}

void Scheduler::take_tier_events() {
  events_.clear();
  tier_->take_events(events_);
  for (const auto& [page, ok] : events_) {
    const TierCopy::Kind kind = copies_[static_cast<size_t>(page)].kind;
    GLINT_CHECK(kind != TierCopy::Kind::none);
    --tier_copies_;
    if (kind == TierCopy::Kind::load) {
      loaded(page, ok);
      continue;
    }
    if (kind == TierCopy::Kind::store) {
      storing_.erase(std::find(storing_.begin(), storing_.end(), page));
    }
    copies_[static_cast<size_t>(page)] = {};
    pool_.release(page);
  }
}

void Scheduler::loaded(int32_t page, bool ok) {
  const TierCopy copy = copies_[static_cast<size_t>(page)];
  copies_[static_cast<size_t>(page)] = {};
  Sequence& sequence = *copy.owner;
  --sequence.restore_pending;
  if (!ok && copy.index < sequence.restore_end) {
    sequence.restore_end = copy.index;
    cancel_loads(sequence, copy.index + 1);
  }
  if (!sequence.restoring()) end_restore(sequence);
}

/// Takes back the loads into the sequence's pages from that one on. What cannot be taken back stays under
/// way.
void Scheduler::cancel_loads(Sequence& sequence, int64_t from) {
  for (size_t i = static_cast<size_t>(from); i < sequence.pages.size(); ++i) {
    TierCopy& copy = copies_[static_cast<size_t>(sequence.pages[i])];
    if (copy.kind != TierCopy::Kind::load || copy.owner != &sequence) continue;
    if (!tier_->withdraw(sequence.pages[i])) continue;
    copy = {};
    --sequence.restore_pending;
    --tier_copies_;
  }
}

/// Goes on with the longest beginning that has come; the pages behind it are computed.
void Scheduler::end_restore(Sequence& sequence) {
  while (static_cast<int64_t>(sequence.pages.size()) > sequence.restore_end) {
    pool_.release(sequence.pages.back());
    sequence.pages.pop_back();
  }
  for (int64_t i = sequence.pages_published; i < sequence.restore_end; ++i) {
    const int32_t page = sequence.pages[static_cast<size_t>(i)];
    if (!pool_.findable(page)) pool_.publish(page, page_hash(sequence, i));
  }
  const int64_t restored = sequence.restore_end * kPage - sequence.computed;
  if (!sequence.internal) counts_.tier_hits_tokens += static_cast<uint64_t>(restored);
  sequence.pages_published = sequence.restore_end;
  sequence.computed = sequence.restore_end * kPage;
  tier_->touch(std::span(sequence.hashes).first(static_cast<size_t>(sequence.restore_end)));
}

/// Lets go of a page; one that the tier is just copying into is let go when that has ended.
void Scheduler::release_or_leave(int32_t page) {
  if (tier_ != nullptr && copies_[static_cast<size_t>(page)].kind == TierCopy::Kind::load) {
    copies_[static_cast<size_t>(page)] = {.kind = TierCopy::Kind::orphan};
    return;
  }
  pool_.release(page);
}

}  // namespace glint
