#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "tensor/safetensors.h"

namespace glint {

namespace {

[[noreturn]] void fail_with_errno(const std::filesystem::path& path, const char* verb) {
  const int code = errno;
  fail(code == ENOENT ? ErrorKind::not_found : ErrorKind::io, path.string(), ": cannot ", verb, ": ",
       std::strerror(code));
}

class Descriptor {
 public:
  // O_NONBLOCK: a pipe in the place of a shard is refused below, not waited for.
  explicit Descriptor(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) fail_with_errno(path, "open");
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

/// At most `count` bytes from the start of the file; fewer only if the file is shorter.
std::string read_start(int fd, size_t count, const std::filesystem::path& path) {
  std::string bytes(count, '\0');
  size_t done = 0;
  while (done < count) {
    const ssize_t got = ::pread(fd, bytes.data() + done, count - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with_errno(path, "read");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

/// The first 8 + N bytes, with N clipped so that a lying length costs no memory; parse_safetensors judges it.
std::string read_head(int fd, int64_t file_bytes, const std::filesystem::path& path) {
  std::string head = read_start(fd, 8, path);
  if (head.size() < 8) return head;
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = (length << 8) | static_cast<unsigned char>(head[i]);
  if (length > static_cast<uint64_t>(kSafetensorsHeaderBytesMax)) return head;
  if (static_cast<int64_t>(length) > file_bytes - 8) return head;
  return read_start(fd, 8 + static_cast<size_t>(length), path);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  const Descriptor file(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_with_errno(path, "stat");
  if (!S_ISREG(status.st_mode)) fail(ErrorKind::bad_input, path.string(), ": not a regular file");
  file_bytes_ = status.st_size;
  table_ = parse_safetensors(read_head(file.get(), file_bytes_, path), file_bytes_, path.string());
  mapping_ = ::mmap(nullptr, static_cast<size_t>(file_bytes_), PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    fail_with_errno(path, "map");
  }
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      table_(std::move(other.table_)),
      file_bytes_(other.file_bytes_),
      mapping_(std::exchange(other.mapping_, nullptr)) {}

SafetensorsFile::~SafetensorsFile() {
  if (mapping_ != nullptr) ::munmap(mapping_, static_cast<size_t>(file_bytes_));
}

std::span<const std::byte> SafetensorsFile::mapping() const {
  return {static_cast<const std::byte*>(mapping_), static_cast<size_t>(file_bytes_)};
}

std::span<const std::byte> SafetensorsFile::data(const TensorEntry& entry) const {
  return mapping().subspan(static_cast<size_t>(table_.data_begin() + entry.begin),
                           static_cast<size_t>(entry.bytes()));
}

const TensorEntry& SafetensorsFile::at(std::string_view name) const {
  const TensorEntry* const entry = table_.find(name);
  if (entry == nullptr) fail(ErrorKind::bad_input, path_.string(), ": has no tensor ", json_quoted(name));
  return *entry;
}

}  // namespace glint
