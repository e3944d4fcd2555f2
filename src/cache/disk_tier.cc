#include "cache/disk_tier.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/log.h"

namespace glint {

namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

std::string gib(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / kGiB);
  return text;
}

}  // namespace

DiskTier::DiskTier(std::unique_ptr<PageFolder> folder, PageMemory& memory, const DiskTierOptions& options)
    : folder_(std::move(folder)),
      memory_(memory),
      options_(options),
      file_bytes_(folder_->format().file_bytes()),
      slots_(static_cast<size_t>(options.cache_pages)) {
  GLINT_CHECK(memory.page_bytes() == folder_->format().page_bytes);
  if (options.bytes_max < file_bytes_) {
    fail(ErrorKind::bad_input, "--kv-disk-bytes ", options.bytes_max, ": one page of 64 tokens takes ",
         file_bytes_);
  }
  events_.reserve(slots_.size());
  const PageFolder::Scan found = folder_->scan();
  for (const StoredPage& page : found.pages) index_.add(page);
  stats_.damaged = static_cast<uint64_t>(found.damaged);
  stats_.foreign = static_cast<uint64_t>(found.foreign);
  {
    Lock lock(mutex_);
    make_room(lock);
  }
  log_found(found);
  for (int i = 0; i < options.writers + options.readers; ++i) {
    const auto buffer = std::make_shared<PageFileBuffer>(folder_->format());
    const bool writes = i < options.writers;
    threads_.emplace_back([=, this] { writes ? write_loop(*buffer) : read_loop(*buffer); });
  }
}

void DiskTier::log_found(const PageFolder::Scan& found) const {
  const auto own = static_cast<int64_t>(found.pages.size()) - found.foreign;
  std::string rest;
  if (found.foreign > 0) rest += cat(", ", found.foreign, " of other models or formats");
  if (found.damaged > 0) rest += cat(", ", found.damaged, " damaged ones removed");
  if (found.partial > 0) rest += cat(", ", found.partial, " unfinished ones removed");
  if (stats_.evicted > 0) rest += cat(", ", stats_.evicted, " evicted for the limit");
  log_info("KV disk tier: ", folder_->path().string(), ": ", own, " pages of 64 tokens", rest, "; ",
           gib(index_.bytes()), " of ", gib(options_.bytes_max), " in use");
}

DiskTier::~DiskTier() {
  {
    Lock lock(mutex_);
    // Nobody waits for loads any more.
    while (list(Phase::load_queued).first >= 0) finish(list(Phase::load_queued).first, false);
    settled_.wait_for(lock, options_.flush_timeout,
                      [&] { return list(Phase::store_queued).size == 0 && writing_ == 0 && may_write(); });
    while (list(Phase::store_queued).first >= 0) {
      ++stats_.dropped;
      finish(list(Phase::store_queued).first, false);
    }
    stop_ = true;
  }
  stores_waiting_.notify_all();
  loads_waiting_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  for (const StoredPage& page : forgotten_) folder_->remove(page);
  folder_->save_order(index_.order(folder_->fingerprint()));
}

void DiskTier::listen(std::function<void()> listener) {
  const Lock lock(mutex_);
  listener_ = std::move(listener);
}

bool DiskTier::contains(const PageHash& hash) const {
  const Lock lock(mutex_);
  return Clock::now() >= read_again_ && index_.contains(hash);
}

void DiskTier::touch(std::span<const PageHash> chain) {
  const Lock lock(mutex_);
  index_.touch(chain);
}

void DiskTier::move_to(int32_t page, Phase phase) {
  Slot& moved = slot(page);
  if (moved.phase != Phase::none) {
    List& from = lists_[static_cast<size_t>(moved.phase)];
    (moved.previous < 0 ? from.first : slot(moved.previous).next) = moved.next;
    (moved.next < 0 ? from.last : slot(moved.next).previous) = moved.previous;
    --from.size;
  }
  moved.phase = phase;
  moved.previous = moved.next = -1;
  if (phase == Phase::none) return;
  List& to = lists_[static_cast<size_t>(phase)];
  moved.previous = to.last;
  (to.last < 0 ? to.first : slot(to.last).next) = page;
  to.last = page;
  ++to.size;
}

void DiskTier::begin(int32_t page, Phase phase, const PageHash& hash, const PageHash& parent) {
  Slot& used = slot(page);
  GLINT_CHECK(used.phase == Phase::none);
  used.hash = hash;
  used.parent = parent;
  used.ticket = next_ticket_++;
  used.since = Clock::now();
  move_to(page, phase);
}

void DiskTier::finish(int32_t page, bool ok) {
  move_to(page, Phase::none);
  events_.push_back({page, ok});
}

void DiskTier::notify(Lock& lock) {
  settled_.notify_all();
  const std::function<void()> listener = listener_;
  lock.unlock();
  if (listener) listener();
  lock.lock();
}

bool DiskTier::store(const PageHash& hash, const PageHash& parent, int32_t page) {
  {
    const Lock lock(mutex_);
    if (index_.contains(hash)) return false;
    if (Clock::now() < write_again_) {
      ++stats_.dropped;
      return false;
    }
    begin(page, Phase::store_queued, hash, parent);
  }
  stores_waiting_.notify_one();
  return true;
}

bool DiskTier::load(const PageHash& hash, int32_t page) {
  {
    const Lock lock(mutex_);
    if (Clock::now() < read_again_ || !index_.contains(hash)) return false;
    begin(page, Phase::load_queued, hash, {});
  }
  loads_waiting_.notify_one();
  return true;
}

bool DiskTier::withdraw(int32_t page) {
  const Lock lock(mutex_);
  const Phase phase = slot(page).phase;
  // `none`: it has just ended, and its event waits to be taken.
  if (phase == Phase::copying || phase == Phase::none) return false;
  if (phase == Phase::store_queued) ++stats_.dropped;
  move_to(page, Phase::none);
  settled_.notify_all();
  return true;
}

void DiskTier::forget_all() {
  {
    const Lock lock(mutex_);
    const std::vector<StoredPage> pages = index_.take(folder_->fingerprint());
    forgotten_.insert(forgotten_.end(), pages.begin(), pages.end());
    stale_writes_ = writing_;
    ++generation_;
    while (list(Phase::store_queued).first >= 0) finish(list(Phase::store_queued).first, false);
  }
  stores_waiting_.notify_all();
}

void DiskTier::take_events(std::vector<TierEvent>& out) {
  const Lock lock(mutex_);
  expire_loads();
  out.insert(out.end(), events_.begin(), events_.end());
  events_.clear();
}

void DiskTier::expire_loads() {
  const auto start = Clock::now() - options_.load_timeout;
  for (const Phase phase : {Phase::load_queued, Phase::reading}) {
    while (list(phase).first >= 0 && slot(list(phase).first).since < start) {
      ++stats_.timeouts;
      count_read_failure();
      finish(list(phase).first, false);
    }
  }
}

TierStats DiskTier::stats() const {
  const Lock lock(mutex_);
  TierStats stats = stats_;
  stats.pages = index_.pages();
  stats.bytes = index_.bytes();
  stats.bytes_max = options_.bytes_max;
  stats.queued = list(Phase::store_queued).size + list(Phase::load_queued).size;
  return stats;
}

void DiskTier::wait_idle() {
  Lock lock(mutex_);
  settled_.wait(lock, [&] {
    return writing_ == 0 && may_write() &&
           std::all_of(lists_.begin(), lists_.end(), [](const List& one) { return one.size == 0; });
  });
}

void DiskTier::write_loop(PageFileBuffer& buffer) {
  Lock lock(mutex_);
  for (;;) {
    stores_waiting_.wait(lock, [&] {
      return stop_ || (!forgotten_.empty() && !removing_) ||
             (may_write() && list(Phase::store_queued).size > 0);
    });
    if (stop_) return;
    if (!forgotten_.empty()) {
      remove_forgotten(lock);
      continue;
    }
    write_one(lock, buffer);
    // Names that nobody waits behind are made durable; in a burst the last one does it for all.
    if (list(Phase::store_queued).size == 0 && writing_ == 0) {
      lock.unlock();
      folder_->sync();
      lock.lock();
    }
  }
}

bool DiskTier::may_write() const {
  return forgotten_.empty() && !removing_ && stale_writes_ == 0;
}

void DiskTier::remove_forgotten(Lock& lock) {
  removing_ = true;
  while (!forgotten_.empty() && !stop_) {
    const StoredPage page = forgotten_.back();
    forgotten_.pop_back();
    lock.unlock();
    folder_->remove(page);
    lock.lock();
  }
  removing_ = false;
  stores_waiting_.notify_all();
  settled_.notify_all();
}

void DiskTier::write_one(Lock& lock, PageFileBuffer& buffer) {
  const int32_t page = list(Phase::store_queued).first;
  const PageHash hash = slot(page).hash;
  const PageHash parent = slot(page).parent;
  const uint64_t generation = generation_;
  move_to(page, Phase::copying);
  ++writing_;
  lock.unlock();
  memory_.copy_out(page, buffer.page());
  lock.lock();
  finish(page, true);
  notify(lock);
  reserved_bytes_ += file_bytes_;
  make_room(lock);
  lock.unlock();
  const int code = folder_->write(hash, buffer);
  lock.lock();
  reserved_bytes_ -= file_bytes_;
  --writing_;
  if (generation != generation_) {  // forgotten while it was written
    if (code == 0) forgotten_.push_back({hash, folder_->fingerprint(), file_bytes_});
    --stale_writes_;
    stores_waiting_.notify_all();
  } else if (code == 0) {
    ++stats_.stored_pages;
    stats_.stored_bytes += static_cast<uint64_t>(file_bytes_);
    index_.add_below({hash, folder_->fingerprint(), file_bytes_}, parent);
    write_warned_ = false;
  } else {
    write_failed(lock, code);
  }
  settled_.notify_all();
}

void DiskTier::make_room(Lock& lock) {
  while (index_.pages() > 0 && index_.bytes() + reserved_bytes_ > options_.bytes_max) {
    const StoredPage page = index_.pop();
    ++stats_.evicted;
    lock.unlock();
    folder_->remove(page);
    lock.lock();
  }
}

void DiskTier::write_failed(Lock& lock, int code) {
  ++stats_.write_errors;
  write_again_ = Clock::now() + options_.write_rest;
  if (!write_warned_) {
    log_warning("KV disk tier: ", folder_->path().string(), ": cannot write a page: ", std::strerror(code),
                "; writing rests for ", options_.write_rest.count() / 1000, " s at a time, serving goes on",
                code == ENOSPC ? "; lower --kv-disk-bytes or free space" : "");
  }
  write_warned_ = true;
  bool any = false;
  while (list(Phase::store_queued).first >= 0) {
    ++stats_.dropped;
    finish(list(Phase::store_queued).first, false);
    any = true;
  }
  if (any) notify(lock);
}

void DiskTier::read_loop(PageFileBuffer& buffer) {
  Lock lock(mutex_);
  for (;;) {
    loads_waiting_.wait(lock, [&] { return stop_ || list(Phase::load_queued).size > 0; });
    if (stop_) return;
    read_one(lock, buffer);
  }
}

void DiskTier::read_one(Lock& lock, PageFileBuffer& buffer) {
  const int32_t page = list(Phase::load_queued).first;
  const PageHash hash = slot(page).hash;
  const uint64_t ticket = slot(page).ticket;
  move_to(page, Phase::reading);
  lock.unlock();
  const PageRead result = folder_->read(hash, buffer);
  lock.lock();
  take_result(hash, result);
  const auto wanted = [&] { return slot(page).phase == Phase::reading && slot(page).ticket == ticket; };
  if (!wanted()) return;
  const bool good = result == PageRead::good;
  if (good) {
    move_to(page, Phase::copying);
    lock.unlock();
    memory_.copy_in(page, buffer.page());
    lock.lock();
    ++stats_.loaded_pages;
    stats_.loaded_bytes += static_cast<uint64_t>(file_bytes_);
  }
  finish(page, good);
  notify(lock);
}

void DiskTier::take_result(const PageHash& hash, PageRead result) {
  if (result == PageRead::good) {
    read_failures_ = 0;
    read_warned_ = false;
    return;
  }
  if (result == PageRead::failed) {  // the page may be good: another time
    ++stats_.read_errors;
    count_read_failure();
    return;
  }
  stats_.damaged += result == PageRead::damaged;
  stats_.foreign += result == PageRead::foreign;
  index_.remove(hash);
  if (result != PageRead::missing) folder_->remove({hash, folder_->fingerprint(), file_bytes_});
}

void DiskTier::count_read_failure() {
  if (++read_failures_ < kReadErrorsMax) return;
  read_failures_ = 0;
  read_again_ = Clock::now() + options_.read_rest;
  if (read_warned_) return;
  read_warned_ = true;
  log_warning("KV disk tier: ", folder_->path().string(), ": ", kReadErrorsMax,
              " reads in a row failed or took too long; reading rests for ",
              options_.read_rest.count() / 1000, " s at a time, serving goes on");
}

std::unique_ptr<DiskTier> open_disk_tier(const std::filesystem::path& folder, std::string_view identity,
                                         PageMemory& memory, const DiskTierOptions& options) {
  const PageFileFormat format{memory.page_bytes(), page_file_fingerprint(identity)};
  if (options.bytes_max < format.file_bytes()) {
    fail(ErrorKind::bad_input, "--kv-disk-bytes ", options.bytes_max, ": one page of 64 tokens takes ",
         format.file_bytes());
  }
  try {
    return std::make_unique<DiskTier>(std::make_unique<PageFolder>(folder, format), memory, options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::io) throw;
    log_warning("KV disk tier: off: ", error.what());
    return nullptr;
  }
}

}  // namespace glint
