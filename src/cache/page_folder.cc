#include "cache/page_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace glint {

namespace {

constexpr std::string_view kSuffix = ".page";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kOrder = "order";
constexpr size_t kOwnerDigits = 16, kHashDigits = 64;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

uint64_t owner_of(const PageHash& fingerprint) {
  uint64_t owner = 0;
  for (size_t i = 0; i < 8; ++i) owner = owner << 8 | fingerprint.bytes[i];
  return owner;
}

std::string name_of(uint64_t owner, const PageHash& hash) {
  char digits[kOwnerDigits + 1];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(owner));
  return cat(digits, "-", hex(hash), kSuffix);
}

template <class Number>
bool parse_hex(std::string_view digits, Number& value) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return error == std::errc() && end == digits.data() + digits.size();
}

/// The inverse of name_of.
std::optional<StoredPage> parse_name(std::string_view name) {
  if (name.size() != kOwnerDigits + 1 + kHashDigits + kSuffix.size()) return std::nullopt;
  StoredPage page;
  if (!parse_hex(name.substr(0, kOwnerDigits), page.fingerprint)) return std::nullopt;
  for (size_t i = 0; i < page.hash.bytes.size(); ++i) {
    if (!parse_hex(name.substr(kOwnerDigits + 1 + 2 * i, 2), page.hash.bytes[i])) return std::nullopt;
  }
  if (name != name_of(page.fingerprint, page.hash)) return std::nullopt;
  return page;
}

bool is_partial(std::string_view name) {
  return name.size() > kPartial.size() && name.substr(0, kPartial.size()) == kPartial &&
         name.find_first_not_of("0123456789", kPartial.size() + 1) == std::string_view::npos;
}

/// Reads exactly the span's bytes and not one more. False at an early end; throws errno as int.
bool read_whole(int fd, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw errno;
    if (got == 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

int write_whole(int fd, std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = ::pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    if (put == 0) return ENOSPC;
    done += static_cast<size_t>(put);
  }
  return 0;
}

}  // namespace

PageFolder::PageFolder(std::filesystem::path folder, const PageFileFormat& format)
    : folder_(std::move(folder)), format_(format), fingerprint_(owner_of(format.fingerprint)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  directory_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_ < 0) {
    fail(ErrorKind::io, folder_.string(), ": cannot use this folder: ", std::strerror(errno));
  }
  lock_ = ::openat(directory_, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ >= 0 && ::flock(lock_, LOCK_EX | LOCK_NB) == 0) {
    const std::string owner = cat(::getpid(), "\n");
    if (::ftruncate(lock_, 0) == 0) (void)!::write(lock_, owner.data(), owner.size());
    return;
  }
  const int code = errno;
  char owner[32] = "unknown";
  if (lock_ >= 0) {
    const ssize_t got = ::pread(lock_, owner, sizeof owner - 1, 0);
    if (got > 1) owner[got - 1] = '\0';
    ::close(lock_);
  }
  ::close(directory_);
  if (code == EWOULDBLOCK) {
    fail(ErrorKind::io, folder_.string(), ": in use by process ", owner, "; give each server its own folder");
  }
  fail(ErrorKind::io, folder_.string(), ": cannot lock this folder: ", std::strerror(code));
}

PageFolder::~PageFolder() {
  ::close(lock_);
  ::close(directory_);
}

PageFolder::Scan PageFolder::scan() {
  struct Dated {
    StoredPage page;
    bool foreign;
    size_t rank;  // of the order saved at the last end; what is not in it came later
    int64_t written_ns;
  };
  std::map<std::array<uint8_t, 32>, size_t> ranks;
  const std::vector<PageHash> order = take_order();
  for (size_t i = 0; i < order.size(); ++i) ranks.emplace(order[i].bytes, i);
  Scan found;
  std::vector<Dated> dated;
  const int copy = ::openat(directory_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const listing = copy < 0 ? nullptr : ::fdopendir(copy);
  if (listing == nullptr) fail(ErrorKind::io, folder_.string(), ": cannot list: ", std::strerror(errno));
  auto shown = std::chrono::steady_clock::now();
  while (const dirent* const entry = ::readdir(listing)) {
    if (is_partial(entry->d_name)) {
      ++found.partial;
      ::unlinkat(directory_, entry->d_name, 0);
      continue;
    }
    std::optional<StoredPage> page = parse_name(entry->d_name);
    struct stat info {};
    if (!page || ::fstatat(directory_, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    page->bytes = info.st_size;
    const bool foreign = page->fingerprint != fingerprint_;
    if (!foreign && (info.st_size != format_.file_bytes() || !S_ISREG(info.st_mode))) {
      ++found.damaged;
      remove(*page);
      continue;
    }
    found.foreign += foreign;
    const auto rank = ranks.find(page->hash.bytes);
    dated.push_back({*page, foreign, rank == ranks.end() ? ranks.size() : rank->second,
                     info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec});
    if (const auto now = std::chrono::steady_clock::now(); now - shown > std::chrono::seconds(2)) {
      shown = now;
      log_info("KV disk tier: listing ", folder_.string(), ", ", dated.size(), " pages so far");
    }
  }
  ::closedir(listing);
  std::sort(dated.begin(), dated.end(), [](const Dated& a, const Dated& b) {
    return std::tuple(!a.foreign, a.rank, a.written_ns) < std::tuple(!b.foreign, b.rank, b.written_ns);
  });
  for (const Dated& one : dated) found.pages.push_back(one.page);
  return found;
}

int PageFolder::open_file(const char* name, int flags) {
  for (;;) {
    const bool direct = direct_.load();
    const int fd = ::openat(directory_, name, flags | O_CLOEXEC | O_NOFOLLOW | (direct ? O_DIRECT : 0), 0644);
    if (fd >= 0 || !direct || errno != EINVAL) return fd;
    direct_.store(false);  // tmpfs, for example
  }
}

int PageFolder::write_partial(const char* partial, PageFileBuffer& buffer) {
  const Descriptor file(open_file(partial, O_WRONLY | O_CREAT | O_TRUNC));
  if (file.get() < 0) return errno;
  if (const int code = write_whole(file.get(), buffer.file()); code != 0) return code;
  return ::fdatasync(file.get()) == 0 ? 0 : errno;
}

int PageFolder::write(const PageHash& hash, PageFileBuffer& buffer) {
  buffer.seal(hash);
  const std::string partial = cat(kPartial, ".", partials_.fetch_add(1));
  int code = write_partial(partial.c_str(), buffer);
  if (code == 0 &&
      ::renameat(directory_, partial.c_str(), directory_, name_of(fingerprint_, hash).c_str()) != 0) {
    code = errno;
  }
  if (code != 0) ::unlinkat(directory_, partial.c_str(), 0);
  return code;
}

PageRead PageFolder::read(const PageHash& hash, PageFileBuffer& buffer) {
  const Descriptor file(open_file(name_of(fingerprint_, hash).c_str(), O_RDONLY));
  if (file.get() < 0) return errno == ENOENT ? PageRead::missing : PageRead::failed;
  try {
    if (!read_whole(file.get(), buffer.file())) return PageRead::damaged;
  } catch (int) {
    return PageRead::failed;
  }
  switch (buffer.check(hash)) {
    case PageCheck::damaged:
      return PageRead::damaged;
    case PageCheck::foreign:
      return PageRead::foreign;
    case PageCheck::good:
      break;
  }
  const timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
  ::futimens(file.get(), now);  // the order of use, should the process be killed; a refusal does no harm
  return PageRead::good;
}

void PageFolder::remove(const StoredPage& page) {
  ::unlinkat(directory_, name_of(page.fingerprint, page.hash).c_str(), 0);
}

void PageFolder::sync() {
  ::fsync(directory_);
}

void PageFolder::save_order(const std::vector<PageHash>& least_recent_first) {
  std::string bytes;
  bytes.reserve(least_recent_first.size() * sizeof(PageHash));
  for (const PageHash& hash : least_recent_first) bytes.append(hash.bytes.begin(), hash.bytes.end());
  try {
    write_file_atomically(folder_ / kOrder, bytes);
  } catch (const Error& error) {
    log_warning("KV disk tier: ", error.what(), "; the next start goes by the files' times");
  }
}

std::vector<PageHash> PageFolder::take_order() {
  std::string bytes;
  try {
    bytes = read_file(folder_ / kOrder);
  } catch (const Error&) {
    return {};
  }
  ::unlinkat(directory_, std::string(kOrder).c_str(), 0);
  // It decides only what is evicted first, so a damaged note needs no checksum.
  std::vector<PageHash> order(bytes.size() / sizeof(PageHash));
  std::memcpy(order.data(), bytes.data(), order.size() * sizeof(PageHash));
  return order;
}

}  // namespace glint
