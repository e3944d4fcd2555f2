#include "bench/disk_bench.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "bench/timing.h"
#include "cache/disk_tier.h"

namespace glint::bench {

namespace {

/// Pages of bytes that no device can compress.
class Pages final : public PageMemory {
 public:
  Pages(int64_t pages, int64_t page_bytes) : pages_(pages), page_bytes_(page_bytes), memory_(words()) {
    uint64_t state = 1;
    for (uint64_t& word : memory_) word = state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  }
  [[nodiscard]] int64_t page_bytes() const override { return page_bytes_; }
  void copy_out(int32_t page, std::byte* out) const override {
    std::memcpy(out, at(page), static_cast<size_t>(page_bytes_));
  }
  void copy_in(int32_t page, const std::byte* bytes) override {
    // Beside what is there, not over it: a copy all the same, and one that can be checked.
    if (std::memcmp(at(page), bytes, static_cast<size_t>(page_bytes_)) != 0) wrong_ = true;
  }
  [[nodiscard]] const std::byte* at(int64_t page) const {
    return std::as_bytes(std::span(memory_)).data() + page * page_bytes_;
  }
  [[nodiscard]] bool wrong() const { return wrong_; }

 private:
  [[nodiscard]] size_t words() const { return static_cast<size_t>(pages_ * page_bytes_ / 8); }
  int64_t pages_, page_bytes_;
  std::vector<uint64_t> memory_;
  std::atomic<bool> wrong_{false};
};

/// The plain way: one file, one thread, one page after the other.
class PlainFile {
 public:
  PlainFile(const DiskBenchOptions& options, const Pages& pages)
      : options_(options),
        pages_(pages),
        path_(options.folder / "plain"),
        bytes_((options.page_bytes + 4095) / 4096 * 4096),
        buffer_(static_cast<std::byte*>(std::aligned_alloc(4096, static_cast<size_t>(bytes_)))) {}
  ~PlainFile() {
    std::free(buffer_);
    ::unlink(path_.c_str());
  }
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  double write(bool direct) {
    ::unlink(path_.c_str());
    return time_of([&] {
      const int fd = open(O_WRONLY | O_CREAT, direct);
      for (int64_t page = 0; page < options_.pages; ++page) {
        pages_.copy_out(static_cast<int32_t>(page), buffer_);
        check(::pwrite(fd, buffer_, static_cast<size_t>(bytes_), page * bytes_));
      }
      if (::fdatasync(fd) != 0) fail(ErrorKind::io, path_.string(), ": ", std::strerror(errno));
      ::close(fd);
    });
  }
  double read(bool direct) {
    const int whole = open(O_RDONLY, false);
    ::posix_fadvise(whole, 0, 0, POSIX_FADV_DONTNEED);
    ::close(whole);
    return time_of([&] {
      const int fd = open(O_RDONLY, direct);
      for (int64_t page = 0; page < options_.pages; ++page) {
        check(::pread(fd, buffer_, static_cast<size_t>(bytes_), page * bytes_));
      }
      ::close(fd);
    });
  }

 private:
  [[nodiscard]] int open(int flags, bool direct) const {
    const int fd = ::open(path_.c_str(), flags | O_CLOEXEC | (direct ? O_DIRECT : 0), 0644);
    if (fd < 0) fail(ErrorKind::io, path_.string(), ": cannot open: ", std::strerror(errno));
    return fd;
  }
  void check(ssize_t done) const {
    if (done != bytes_) fail(ErrorKind::io, path_.string(), ": a page was not copied whole");
  }

  const DiskBenchOptions& options_;
  const Pages& pages_;
  std::filesystem::path path_;
  int64_t bytes_;
  std::byte* buffer_;
};

PageHash hash_of(int64_t page) {
  return chain_next({}, std::vector<int32_t>{static_cast<int32_t>(page)});
}

std::unique_ptr<DiskTier> open_tier(const DiskBenchOptions& options, Pages& pages) {
  return std::make_unique<DiskTier>(
      std::make_unique<PageFolder>(options.folder / "tier", PageFileFormat{options.page_bytes, {}}), pages,
      DiskTierOptions{.bytes_max = int64_t{1} << 50, .cache_pages = options.pages});
}

double write_tier(const DiskBenchOptions& options, DiskTier& tier) {
  return time_of([&] {
    for (int64_t page = 0; page < options.pages; ++page) {
      tier.store(hash_of(page), hash_of(page - 1), static_cast<int32_t>(page));
    }
    tier.wait_idle();
  });
}

double read_tier(const DiskBenchOptions& options, DiskTier& tier) {
  const double seconds = time_of([&] {
    for (int64_t page = 0; page < options.pages; ++page) tier.load(hash_of(page), static_cast<int32_t>(page));
    tier.wait_idle();
  });
  if (tier.stats().loaded_pages != static_cast<uint64_t>(options.pages)) {
    fail(ErrorKind::io, options.folder.string(), ": not every page came back: free some space");
  }
  return seconds;
}

}  // namespace

void bench_disk(const DiskBenchOptions& options, Report& report) {
  set_log_level(LogLevel::warning);
  std::filesystem::create_directories(options.folder);
  Pages pages(options.pages, options.page_bytes);
  PlainFile plain(options, pages);
  enum Way {
    write_cached,
    write_direct,
    write_through_tier,
    read_cached,
    read_direct,
    read_through_tier,
    kWays
  };
  std::vector<std::vector<double>> seconds(kWays);
  for (int round = 0; round < options.rounds; ++round) {
    std::filesystem::remove_all(options.folder / "tier");
    const auto tier = open_tier(options, pages);
    seconds[write_cached].push_back(plain.write(false));
    seconds[write_through_tier].push_back(write_tier(options, *tier));
    seconds[write_direct].push_back(plain.write(true));
    seconds[read_cached].push_back(plain.read(false));
    seconds[read_through_tier].push_back(read_tier(options, *tier));
    seconds[read_direct].push_back(plain.read(true));
  }
  std::filesystem::remove_all(options.folder / "tier");
  if (pages.wrong()) fail(ErrorKind::internal, "the tier gave back other bytes");
  const double megabytes = 1e-6 * static_cast<double>(options.pages * options.page_bytes);
  const auto add = [&](const char* name, Way way, double limit) {
    const double typical = median(seconds[way]);
    report.add({.group = "disk",
                .name = name,
                .seconds = typical,
                .value = megabytes / typical,
                .limit = limit,
                .unit = "MB/s",
                .limited_by = limit > 0 ? "plain copy" : ""});
    return megabytes / typical;
  };
  const double write_limit =
      std::max(add("plain write", write_cached, 0), add("plain write, direct", write_direct, 0));
  add("tier write", write_through_tier, write_limit);
  const double read_limit =
      std::max(add("plain read", read_cached, 0), add("plain read, direct", read_direct, 0));
  add("tier read", read_through_tier, read_limit);
}

}  // namespace glint::bench
