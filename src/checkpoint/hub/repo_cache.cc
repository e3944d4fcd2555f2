#include "checkpoint/hub/repo_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace glint::hub {

namespace {

// The first line is what programs look for (the Cache Directory Tagging convention).
constexpr std::string_view kCacheTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of models; backups may leave it out.\n";
constexpr mode_t kLockMode = 0664;  // users of a shared cache wait for each other
constexpr size_t kCommitDigits = 40;

[[noreturn]] void fail_errno(const std::filesystem::path& path, const char* verb) {
  fail(ErrorKind::io, path.string(), ": cannot ", verb, ": ", std::strerror(errno));
}

void make_folders(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    fail(ErrorKind::io, path.string(), ": cannot make this folder: ", error.message(),
         " (HF_HUB_CACHE or --download-dir chooses another place)");
  }
}

/// A name beside the blobs that no other thread or process uses.
std::filesystem::path scratch_name(const std::filesystem::path& folder) {
  static std::atomic<int> counter{0};
  return folder / cat(".glint.", ::getpid(), ".", counter.fetch_add(1));
}

void rename_over(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  const int code = errno;
  ::unlink(from.c_str());
  errno = code;
  fail_errno(to, "rename to");
}

}  // namespace

bool is_commit(const std::string& text) {
  return text.size() == kCommitDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

void check_revision(const std::string& revision) {
  const bool plain =
      std::all_of(revision.begin(), revision.end(), [](char c) { return c > ' ' && c != 0x7F && c != '\\'; });
  const bool inside = !revision.starts_with('/') && !revision.ends_with('/') &&
                      revision.find("..") == std::string::npos && revision.find("//") == std::string::npos;
  if (revision.empty() || revision.size() > 255 || !plain || !inside) {
    fail(ErrorKind::bad_input, "argument --revision: expected a branch, a tag or a commit");
  }
}

RepoCache::RepoCache(std::filesystem::path root, const std::string& repo)
    : root_(std::move(root)), name_("models--" + repo) {
  name_.replace(name_.find('/'), 1, "--");
  folder_ = root_ / name_;
}

std::filesystem::path RepoCache::snapshot(const std::string& commit) const {
  return folder_ / "snapshots" / commit;
}
std::filesystem::path RepoCache::blob(const std::string& sum) const {
  return folder_ / "blobs" / sum;
}
std::filesystem::path RepoCache::partial(const std::string& sum) const {
  return folder_ / "blobs" / (sum + ".incomplete");
}
std::filesystem::path RepoCache::lock(const std::string& sum) const {
  return root_ / ".locks" / name_ / (sum + ".lock");
}

std::optional<std::string> RepoCache::commit_of(const std::string& revision) const {
  std::error_code error;
  if (is_commit(revision)) {
    if (std::filesystem::is_directory(snapshot(revision), error)) return revision;
    return std::nullopt;
  }
  const std::filesystem::path file = folder_ / "refs" / revision;
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  std::string commit = read_file(file, 4096);
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == ' ')) commit.pop_back();
  if (!is_commit(commit)) return std::nullopt;
  return commit;
}

void RepoCache::create() const {
  make_folders(folder_ / "blobs");
  make_folders(lock("x").parent_path());
  const std::filesystem::path tag = root_ / "CACHEDIR.TAG";
  std::error_code error;
  if (!std::filesystem::exists(tag, error)) write_file_atomically(tag, kCacheTag);
}

void RepoCache::write_ref(const std::string& revision, const std::string& commit) const {
  if (is_commit(revision) || commit_of(revision) == commit) return;
  const std::filesystem::path file = folder_ / "refs" / revision;
  make_folders(file.parent_path());
  const std::filesystem::path scratch = scratch_name(folder_);
  write_file_atomically(scratch, commit);
  rename_over(scratch, file);
}

void RepoCache::link(const std::string& commit, const std::string& file, const std::string& sum) const {
  make_folders(snapshot(commit));
  const std::filesystem::path scratch = scratch_name(folder_);
  const std::filesystem::path target = std::filesystem::path("../../blobs") / sum;
  if (::symlink(target.c_str(), scratch.c_str()) != 0) {
    fail_errno(scratch, "make a symbolic link (the cache's file system must have them)");
  }
  rename_over(scratch, snapshot(commit) / file);
}

std::optional<FileLock> FileLock::try_lock(const std::filesystem::path& path) {
  for (;;) {
    FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kLockMode));
    if (lock.fd_ < 0) fail_errno(path, "open");
    (void)::fchmod(lock.fd_, kLockMode);  // whatever the umask; refused where another user made the file
    if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) return std::nullopt;
      fail_errno(path, "lock");
    }
    // Who removes lock files (filelock may) must not let two of us hold two files of one name.
    struct stat held {};
    struct stat named {};
    if (::fstat(lock.fd_, &held) != 0) fail_errno(path, "stat");
    if (::stat(path.c_str(), &named) == 0 && named.st_ino == held.st_ino && named.st_dev == held.st_dev) {
      return lock;
    }
  }
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}
FileLock::FileLock(FileLock&& other) noexcept : fd_(other.fd_) {
  other.fd_ = -1;
}

}  // namespace glint::hub
