#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "base/file.h"
#include "checkpoint/shard_set.h"

namespace glint {

namespace {

constexpr int64_t kChunkBytes = int64_t{4}
                                << 20;  // the buffer stays in the L2/L3 cache, so a warm read costs one pass
constexpr auto kReportInterval = std::chrono::milliseconds(100);

/// Enters the pages into this process's map, so that the first use pays no faults. Only a hint: old kernels
/// refuse it.
void populate(const SafetensorsFile& shard, int64_t offset, int64_t bytes) {
#ifdef MADV_POPULATE_READ
  // madvise wants a mutable pointer, and reads only.
  auto* const start = const_cast<std::byte*>(shard.mapping().data()) + offset;
  (void)::madvise(start, static_cast<size_t>(bytes), MADV_POPULATE_READ);
#else
  (void)shard;
  (void)offset;
  (void)bytes;
#endif
}

class Reader {
 public:
  explicit Reader(const std::vector<SafetensorsFile>& shards) : shards_(shards) {
    for (const SafetensorsFile& shard : shards) total_ += shard.file_bytes();
  }

  void run(const std::function<bool(int64_t, int64_t)>& progress) {
    const int count = shard_readers();
    busy_ = count;
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
    try {
      report(progress);
    } catch (...) {
      stop(std::current_exception());
    }
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void report(const std::function<bool(int64_t, int64_t)>& progress) {
    std::unique_lock lock(mutex_);
    while (!finished_.wait_for(lock, kReportInterval, [this] { return busy_ == 0; })) {
      lock.unlock();
      if (progress && !progress(done_, total_)) stop(nullptr);
      lock.lock();
    }
    lock.unlock();
    if (!stopped_ && progress) (void)progress(done_, total_);
  }

  void stop(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    stopped_ = true;
  }

  /// The next chunk of any shard; false when all are taken.
  bool take(size_t& shard, int64_t& offset) {
    const std::lock_guard lock(mutex_);
    while (shard_ < shards_.size() && offset_ >= shards_[shard_].file_bytes()) {
      ++shard_;
      offset_ = 0;
    }
    if (shard_ == shards_.size()) return false;
    shard = shard_;
    offset = offset_;
    offset_ += kChunkBytes;
    return true;
  }

  void work() {
    try {
      read_chunks();
    } catch (...) {
      stop(std::current_exception());
    }
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) finished_.notify_all();
  }

  void read_chunks() {
    // What is read is thrown away: what counts is that it is in the page cache afterwards.
    std::vector<std::byte> buffer(static_cast<size_t>(kChunkBytes));
    std::optional<InputFile> opened;
    size_t shard = 0;
    int64_t offset = 0;
    while (!stopped_ && take(shard, offset)) {
      const SafetensorsFile& file = shards_[shard];
      if (!opened || opened->path() != file.path()) opened.emplace(file.path());
      const int64_t bytes = std::min(kChunkBytes, file.file_bytes() - offset);
      opened->read(offset, std::span(buffer).first(static_cast<size_t>(bytes)));
      populate(file, offset, bytes);
      done_ += bytes;
    }
  }

  const std::vector<SafetensorsFile>& shards_;
  int64_t total_ = 0;
  std::atomic<int64_t> done_{0};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::condition_variable finished_;
  size_t shard_ = 0;
  int64_t offset_ = 0;
  int busy_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

int shard_readers() {
  // A cold disk wants several reads in flight, even on two cores.
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 4U, 16U));
}

void read_shards(const std::vector<SafetensorsFile>& shards,
                 const std::function<bool(int64_t, int64_t)>& progress) {
  Reader(shards).run(progress);
}

}  // namespace glint
