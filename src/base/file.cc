#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace glint {

namespace {

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

[[noreturn]] void fail_with_errno(const std::filesystem::path& path, const char* verb) {
  const int code = errno;
  fail(code == ENOENT ? ErrorKind::not_found : ErrorKind::io, path.string(), ": cannot ", verb, ": ",
       std::strerror(code));
}

void write_all(int fd, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_with_errno(path, "write");
    bytes.remove_prefix(static_cast<size_t>(done));
  }
}

}  // namespace

std::string read_file(const std::filesystem::path& path, size_t bytes_max) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail_with_errno(path, "open");
  std::string bytes;
  std::string chunk(size_t{1} << 20, '\0');
  for (;;) {
    const ssize_t got = ::read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with_errno(path, "read");
    if (got == 0) return bytes;
    bytes.append(chunk, 0, static_cast<size_t>(got));
    if (bytes.size() > bytes_max) {
      fail(ErrorKind::bad_input, path.string(), ": larger than the ", bytes_max,
           " bytes that such a file may have");
    }
  }
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  const std::filesystem::path partial = path.string() + ".partial." + std::to_string(::getpid());
  try {
    const Descriptor file(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0) fail_with_errno(partial, "create");
    write_all(file.get(), bytes, partial);
    if (::fsync(file.get()) != 0) fail_with_errno(partial, "fsync");
    if (::rename(partial.c_str(), path.c_str()) != 0) fail_with_errno(path, "rename to");
  } catch (...) {
    ::unlink(partial.c_str());
    throw;
  }
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) ::fsync(directory.get());
}

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail_with_errno(path_, "open");
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

void InputFile::read(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with_errno(path_, "read");
    if (got == 0) {
      fail(ErrorKind::io, path_.string(), ": became shorter while it was read, at byte ", offset);
    }
    offset += got;
    out = out.subspan(static_cast<size_t>(got));
  }
}

}  // namespace glint
