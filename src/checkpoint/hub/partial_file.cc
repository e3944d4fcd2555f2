#include "checkpoint/hub/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace glint::hub {

namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

[[noreturn]] void fail_errno(const std::filesystem::path& path, const char* verb) {
  fail(ErrorKind::io, path.string(), ": cannot ", verb, ": ", std::strerror(errno));
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

PartialFile::PartialFile(std::filesystem::path path, const RemoteFile& file)
    : path_(std::move(path)), file_(file) {
  open();
}

PartialFile::~PartialFile() {
  if (fd_ >= 0) ::close(fd_);
}

/// git hashes a blob with a head in front of it.
void PartialFile::start_sum() {
  digest_.emplace(file_.large() ? Digest::Kind::sha256 : Digest::Kind::sha1);
  if (!file_.large()) {
    digest_->update("blob " + std::to_string(file_.bytes) + std::string(1, '\0'));
  }
  bytes_ = 0;
}

void PartialFile::open() {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_errno(path_, "open");
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail_errno(path_, "stat");
  start_sum();
  if (info.st_size > file_.bytes) {
    restart();
    return;
  }
  std::vector<std::byte> buffer(kReadBytes);
  while (bytes_ < info.st_size) {
    const ssize_t got = ::pread(fd_, buffer.data(), buffer.size(), bytes_);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(path_, "read");
    if (got == 0) break;
    digest_->update(std::span(buffer).first(static_cast<size_t>(got)));
    bytes_ += got;
  }
}

/// A new file rather than a shorter one: where flock() is not honoured, another process may be writing the
/// old one, or have published it under its final name.
void PartialFile::restart() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) fail_errno(path_, "remove");
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_errno(path_, "make");
  start_sum();
}

void PartialFile::append(std::span<const std::byte> bytes) {
  if (bytes_ + static_cast<int64_t>(bytes.size()) > file_.bytes) {
    throw Retryable(cat(file_.name, ": more than the ", file_.bytes, " bytes of its listing came"));
  }
  digest_->update(bytes);
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(fd_, bytes.data(), bytes.size(), bytes_);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && (errno == ENOSPC || errno == EDQUOT)) {
      fail(ErrorKind::io, path_.parent_path().string(), ": the disk is full; ", file_.name, " still needs ",
           file_.bytes - bytes_, " bytes (what has come is kept: make room and run the same command again)");
    }
    if (done < 0) fail_errno(path_, "write");
    bytes_ += done;
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

std::string PartialFile::sum() {
  std::string text = digest_->hex();
  digest_.reset();
  return text;
}

void PartialFile::publish(const std::filesystem::path& path) {
  if (::fsync(fd_) != 0) fail_errno(path_, "fsync");
  if (::rename(path_.c_str(), path.c_str()) != 0) fail_errno(path, "rename to");
  sync_folder(path.parent_path());
}

}  // namespace glint::hub
