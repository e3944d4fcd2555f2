// The tier on disk: pages are written behind and read ahead by threads of its own.
//
// No call of the engine's thread does I/O or waits for it. A writer copies a page into a buffer of its own
// and is done with the cache's memory before the device has seen a byte; a reader verifies a page in its
// buffer before it copies it in. So a device that hangs holds no page of the cache. Memory: a buffer of one
// page for each thread, a slot for each page of the cache, the index.
//
// A device that refuses (full, read-only, broken) costs one warning line: writing rests for a while and is
// then tried again; reading likewise. Serving goes on in any case.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cache/page_folder.h"
#include "cache/page_index.h"
#include "cache/page_tier.h"

namespace glint {

struct DiskTierOptions {
  int64_t bytes_max = 0;    // of all page files in the folder, foreign ones too
  int64_t cache_pages = 0;  // of the cache: page numbers are below it
  int readers = 4;
  int writers = 4;
  std::chrono::milliseconds load_timeout{10'000};  // then the request computes the page instead
  std::chrono::milliseconds flush_timeout{5'000};  // for pages that wait to be written when the tier ends
  std::chrono::milliseconds write_rest{30'000};    // after a failed write
  std::chrono::milliseconds read_rest{30'000};     // after kReadErrorsMax failed or late reads in a row
};

class DiskTier final : public PageTier {
 public:
  static constexpr int kReadErrorsMax = 8;

  /// Lists the folder and logs what it found. Throws bad_input if bytes_max holds no page, io if the folder
  /// cannot be listed. `memory` must outlive the tier.
  DiskTier(std::unique_ptr<PageFolder> folder, PageMemory& memory, const DiskTierOptions& options);
  /// Writes what waits, as far as the flush timeout allows, and the order of use.
  ~DiskTier() override;

  void listen(std::function<void()> listener) override;
  [[nodiscard]] bool contains(const PageHash& hash) const override;
  void touch(std::span<const PageHash> chain) override;
  bool store(const PageHash& hash, const PageHash& parent, int32_t page) override;
  bool load(const PageHash& hash, int32_t page) override;
  bool withdraw(int32_t page) override;
  /// Pages of other models stay: they are not this cache's.
  void forget_all() override;
  void take_events(std::vector<TierEvent>& out) override;
  [[nodiscard]] TierStats stats() const override;

  /// Waits until nothing is queued or under way. For tests and measurements.
  void wait_idle();

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  enum class Phase { none, store_queued, load_queued, reading, copying };
  static constexpr size_t kPhases = 5;

  /// What is under way for a page of the cache. Slots of a phase form a list, oldest first.
  struct Slot {
    Phase phase = Phase::none;
    int32_t previous = -1, next = -1;
    uint64_t ticket = 0;  // differs for each use: a reader sees whether its load is still wanted
    PageHash hash, parent;
    Clock::time_point since;
  };
  struct List {
    int32_t first = -1, last = -1;
    int64_t size = 0;
  };

  [[nodiscard]] Slot& slot(int32_t page) { return slots_[static_cast<size_t>(page)]; }
  [[nodiscard]] const List& list(Phase phase) const { return lists_[static_cast<size_t>(phase)]; }
  void move_to(int32_t page, Phase phase);
  void begin(int32_t page, Phase phase, const PageHash& hash, const PageHash& parent);
  void finish(int32_t page, bool ok);  // with an event
  void notify(Lock& lock);

  void write_loop(PageFileBuffer& buffer);
  void write_one(Lock& lock, PageFileBuffer& buffer);
  void make_room(Lock& lock);
  [[nodiscard]] bool may_write() const;
  void remove_forgotten(Lock& lock);
  void write_failed(Lock& lock, int code);
  void read_loop(PageFileBuffer& buffer);
  void read_one(Lock& lock, PageFileBuffer& buffer);
  void take_result(const PageHash& hash, PageRead result);
  void count_read_failure();
  void expire_loads();
  void log_found(const PageFolder::Scan& found) const;

  std::unique_ptr<PageFolder> folder_;
  PageMemory& memory_;
  DiskTierOptions options_;
  int64_t file_bytes_;

  mutable std::mutex mutex_;
  std::condition_variable stores_waiting_, loads_waiting_, settled_;
  std::function<void()> listener_;
  std::vector<Slot> slots_;
  std::array<List, kPhases> lists_;
  std::vector<TierEvent> events_;
  PageIndex index_;
  int64_t reserved_bytes_ = 0;  // of files that are being written
  int writing_ = 0;
  // After forget_all() nothing is written before what was forgotten is gone: a file that is written again
  // must not meet the removal of its predecessor.
  std::vector<StoredPage> forgotten_;  // files that are to be removed
  bool removing_ = false;
  int stale_writes_ = 0;     // begun before, not ended yet
  uint64_t generation_ = 0;  // calls of forget_all()
  uint64_t next_ticket_ = 1;
  int read_failures_ = 0;  // in a row
  bool write_warned_ = false, read_warned_ = false;
  Clock::time_point write_again_{}, read_again_{};
  bool stop_ = false;
  TierStats stats_;
  std::vector<std::thread> threads_;
};

/// The tier in a folder, or none, with a warning line, if the folder cannot be used: serving needs no tier.
/// Throws bad_input if bytes_max is less than one page takes.
std::unique_ptr<DiskTier> open_disk_tier(const std::filesystem::path& folder, std::string_view identity,
                                         PageMemory& memory, const DiskTierOptions& options);

}  // namespace glint
