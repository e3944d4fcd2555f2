// A second home for published pages, slower than the cache and larger: what the scheduler asks of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cache/page_hash.h"

namespace glint {

/// The bytes of the cache's pages, to be copied out and in. Called by a tier's threads, several at once, each
/// for another page, which no step writes meanwhile or, during copy_in, reads. Must not throw.
class PageMemory {
 public:
  virtual ~PageMemory() = default;
  [[nodiscard]] virtual int64_t page_bytes() const = 0;
  /// `out` and `bytes` hold page_bytes().
  virtual void copy_out(int32_t page, std::byte* out) const = 0;
  virtual void copy_in(int32_t page, const std::byte* bytes) = 0;
};

struct TierStats {
  int64_t pages = 0, bytes = 0, bytes_max = 0;  // on disk now, foreign ones included
  int64_t queued = 0;                           // pages that wait to be written or read
  uint64_t stored_pages = 0, stored_bytes = 0;
  uint64_t loaded_pages = 0, loaded_bytes = 0;
  uint64_t damaged = 0;  // wrong size, header or checksum: removed
  uint64_t foreign = 0;  // of another model, format or program; first to be evicted
  uint64_t dropped = 0;  // never written: the memory was needed first, or writing is suspended
  uint64_t evicted = 0;  // removed to keep to bytes_max
  uint64_t write_errors = 0, read_errors = 0, timeouts = 0;
};

/// A copy that ended. `ok`: a load has put the right bytes into the page.
struct TierEvent {
  int32_t page = -1;
  bool ok = false;
};

/// All calls but the listener's come from one thread and return without waiting for a device. A page has at
/// most one copy under way. Each accepted store() or load() is followed by one event, unless it was
/// withdrawn.
class PageTier {
 public:
  virtual ~PageTier() = default;

  /// `listener` is called on any thread whenever there are new events.
  virtual void listen(std::function<void()> listener) = 0;

  [[nodiscard]] virtual bool contains(const PageHash& hash) const = 0;
  /// The pages of a chain, first to last, were of use: of those that the tier has, the first becomes the
  /// last to be evicted.
  virtual void touch(std::span<const PageHash> chain) = 0;

  /// Asks for a copy of a page that must not change until the event. False if it has the page already or
  /// does not take any. `parent` is the hash of the page before it in the chain: a page is evicted before
  /// its parent.
  virtual bool store(const PageHash& hash, const PageHash& parent, int32_t page) = 0;
  /// Asks for the page's contents, to be copied into `page` once they have been verified.
  virtual bool load(const PageHash& hash, int32_t page) = 0;
  /// Takes a store or load back. True: the page is no longer touched and no event follows. False: its bytes
  /// are being copied in memory right now (no device is waited for) and the event follows.
  virtual bool withdraw(int32_t page) = 0;

  /// Forgets every page; copies that are under way end as they would. What was forgotten is removed, sooner
  /// or later.
  virtual void forget_all() = 0;

  /// Appends the events since the last call.
  virtual void take_events(std::vector<TierEvent>& out) = 0;
  [[nodiscard]] virtual TierStats stats() const = 0;
};

}  // namespace glint
