#include "quantize/output_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/digest.h"

namespace glint::quantize {

namespace {

constexpr int64_t kReadBackBytes = int64_t{1} << 20;
/// From here on the kernel is asked to start writing at once, so that the flush at the end is short.
constexpr size_t kEagerBytes = size_t{1} << 20;

}  // namespace

OutputFiles::OutputFiles(const Plan& plan, std::filesystem::path folder,
                         std::function<void(uint32_t)> complete)
    : plan_(plan), folder_(std::move(folder)), complete_(std::move(complete)) {
  for (const OutputShard& shard : plan.shards) {
    shards_.push_back(std::make_unique<Shard>());
    shards_.back()->missing = shard.bytes - static_cast<int64_t>(shard.head.size());
  }
}

OutputFiles::~OutputFiles() {
  for (uint32_t number = 0; number < shards_.size(); ++number) {
    if (shards_[number]->descriptor < 0) continue;
    ::close(shards_[number]->descriptor);
    ::unlink(path(number, true).c_str());
  }
}

std::filesystem::path OutputFiles::path(uint32_t shard, bool partial) const {
  return folder_ / (plan_.shards[shard].file + (partial ? ".partial" : ""));
}

void OutputFiles::fail_write(uint32_t shard, const char* verb) const {
  const int code = errno;
  fail(ErrorKind::io, path(shard, false).string(), ": cannot ", verb, ": ", std::strerror(code),
       code == ENOSPC || code == EDQUOT ? "; make room and continue with --resume" : "");
}

void OutputFiles::mark_done(uint32_t shard) {
  shards_[shard]->missing = 0;
  shards_[shard]->done = true;
}

int OutputFiles::open(uint32_t number) {
  Shard& shard = *shards_[number];
  const std::lock_guard lock(shard.mutex);
  if (shard.descriptor >= 0) return shard.descriptor;
  const int descriptor = ::open(path(number, true).c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) fail_write(number, "create");
  shard.descriptor = descriptor;
  // A full disk shows here and not in the middle; file systems without it just write.
  if (::fallocate(descriptor, 0, 0, plan_.shards[number].bytes) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    fail_write(number, "reserve its space");
  }
  write_at(number, descriptor, 0, std::as_bytes(std::span(plan_.shards[number].head)));
  return descriptor;
}

void OutputFiles::write_at(uint32_t shard, int descriptor, int64_t place,
                           std::span<const std::byte> bytes) const {
  const int64_t begin = place;
  const size_t count = bytes.size();
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(descriptor, bytes.data(), bytes.size(), place);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_write(shard, "write");
    bytes = bytes.subspan(static_cast<size_t>(done));
    place += done;
  }
  if (count >= kEagerBytes) (void)::sync_file_range(descriptor, begin, place - begin, SYNC_FILE_RANGE_WRITE);
}

void OutputFiles::write(uint32_t output, int64_t offset, std::span<const std::byte> bytes) {
  const OutputTensor& tensor = plan_.outputs[output];
  const auto count = static_cast<int64_t>(bytes.size());
  GLINT_CHECK(offset >= 0 && offset + count <= tensor.spec.bytes());
  Shard& shard = *shards_[tensor.shard];
  GLINT_CHECK(!shard.done);
  if (!folder_.empty()) write_at(tensor.shard, open(tensor.shard), tensor.place + offset, bytes);
  if (shard.missing.fetch_sub(count) == count) complete_(tensor.shard);
}

std::string OutputFiles::finish(uint32_t number, const std::function<void(int64_t)>& progress) {
  Shard& shard = *shards_[number];
  const int64_t bytes = plan_.shards[number].bytes;
  GLINT_CHECK(shard.missing == 0 && !shard.done);
  shard.done = true;
  if (folder_.empty()) {
    progress(bytes);
    return "";
  }
  Sha256 hash;
  std::vector<std::byte> part(static_cast<size_t>(kReadBackBytes));
  for (int64_t place = 0; place < bytes;) {
    const ssize_t got = ::pread(shard.descriptor, part.data(), part.size(), place);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_write(number, "read back");
    if (got == 0)
      fail(ErrorKind::io, path(number, true).string(), ": ends at byte ", place, ", expected ", bytes);
    hash.update(std::span(part).first(static_cast<size_t>(got)));
    place += got;
    progress(got);
  }
  if (::fdatasync(shard.descriptor) != 0) fail_write(number, "flush");
  (void)::posix_fadvise(shard.descriptor, 0, 0, POSIX_FADV_DONTNEED);
  if (::rename(path(number, true).c_str(), path(number, false).c_str()) != 0) fail_write(number, "rename");
  ::close(shard.descriptor);
  shard.descriptor = -1;
  return hash.hex();
}

}  // namespace glint::quantize
