#include "quantize/read_ahead.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace glint::quantize {

namespace {

constexpr int64_t kPage = 4096;
/// One request; several are in flight.
constexpr int64_t kRequestBytes = int64_t{4} << 20;
constexpr int kThreads = 4;

int64_t page_floor(int64_t place) {
  return place / kPage * kPage;
}
int64_t page_ceil(int64_t place) {
  return (place + kPage - 1) / kPage * kPage;
}

/// Memory of a segment: the whole pages around it.
int64_t hull_bytes(const Segment& segment) {
  return BufferPool::rounded(page_ceil(segment.begin + segment.bytes) - page_floor(segment.begin));
}

}  // namespace

SourceReader::SourceReader(const std::filesystem::path& path, int64_t bytes, int64_t modified_ns)
    : path_(path), bytes_(bytes), modified_ns_(modified_ns) {
  buffered_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (buffered_ < 0) {
    const int code = errno;
    fail(code == ENOENT ? ErrorKind::not_found : ErrorKind::io, path.string(),
         ": cannot open: ", std::strerror(code));
  }
  direct_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
}

SourceReader::~SourceReader() {
  if (buffered_ >= 0) ::close(buffered_);
  if (direct_ >= 0) ::close(direct_);
}

void SourceReader::check_unchanged() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) {
    fail(ErrorKind::io, path_.string(), ": cannot stat: ", std::strerror(errno));
  }
  const int64_t modified = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  if (status.st_size == bytes_ && modified == modified_ns_) return;
  fail(ErrorKind::bad_input, path_.string(), ": changed while it was read (", bytes_,
       " bytes when the conversion was "
       "planned, ",
       status.st_size, " now): begin again when the source is complete");
}

void SourceReader::fail_short(int64_t place) const {
  fail(ErrorKind::io, path_.string(), ": ends at byte ", place, ", expected ", bytes_,
       " bytes: the file was cut while it was read");
}

void SourceReader::read(int64_t begin, std::span<std::byte> buffer) const {
  while (!buffer.empty()) {
    const ssize_t got = ::pread(buffered_, buffer.data(), buffer.size(), begin);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      fail(ErrorKind::io, path_.string(), ": cannot read at byte ", begin, ": ", std::strerror(errno));
    if (got == 0) fail_short(begin);
    buffer = buffer.subspan(static_cast<size_t>(got));
    begin += got;
  }
}

void SourceReader::read_pages(int64_t begin, int64_t end, std::byte* memory) const {
  const int64_t hull_begin = page_floor(begin);
  int64_t place = hull_begin;
  while (place < end) {
    // Direct reads need whole pages; one that the end of the file cut short is complete.
    const auto wanted = static_cast<size_t>(page_ceil(end) - place);
    const bool direct = direct_ >= 0 && place % kPage == 0;
    const ssize_t got = ::pread(direct ? direct_ : buffered_, memory + (place - hull_begin), wanted, place);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && direct && errno == EINVAL)
      return read(begin, {memory + (begin - hull_begin), static_cast<size_t>(end - begin)});
    if (got < 0)
      fail(ErrorKind::io, path_.string(), ": cannot read at byte ", place, ": ", std::strerror(errno));
    if (got == 0) fail_short(place);
    place += got;
  }
}

std::span<const std::byte> Segment::data() const {
  return {buffer.data() + begin % kPage, static_cast<size_t>(bytes)};
}

ReadAhead::ReadAhead(const SourceReader& reader, BufferPool& pool, std::vector<Segment> segments,
                     int64_t bytes_ahead)
    : reader_(reader), pool_(pool), waiting_(std::move(segments)), bytes_ahead_max_(bytes_ahead) {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { thread_loop(); });
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

/// A piece of the first slot that has one left, or of a new slot; false if the thread should wait.
bool ReadAhead::take_piece(std::unique_lock<std::mutex>&, Piece& piece) {
  Slot* slot = nullptr;
  for (const auto& each : slots_) {
    if (each->next_piece < each->segment.begin + each->segment.bytes && !each->failure) slot = each.get();
    if (slot != nullptr) break;
  }
  if (slot == nullptr) {
    if (waiting_next_ == waiting_.size()) return false;
    const Segment& next = waiting_[waiting_next_];
    if (!slots_.empty() && bytes_ahead_ + hull_bytes(next) > bytes_ahead_max_) return false;
    slots_.push_back(std::make_unique<Slot>());
    slot = slots_.back().get();
    slot->segment = next;
    slot->next_piece = next.begin;
    ++waiting_next_;
    bytes_ahead_ += hull_bytes(next);
    try {
      slot->segment.buffer = pool_.take(page_ceil(next.begin + next.bytes) - page_floor(next.begin));
    } catch (...) {
      slot->failure = std::current_exception();
      changed_.notify_all();
      return false;
    }
  }
  const int64_t end = slot->segment.begin + slot->segment.bytes;
  piece = {slot, slot->next_piece, std::min(end, page_floor(slot->next_piece) + kRequestBytes)};
  slot->next_piece = piece.end;
  ++slot->pieces_reading;
  return true;
}

void ReadAhead::thread_loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    Piece piece;
    if (!take_piece(lock, piece)) {
      changed_.wait(lock);
      continue;
    }
    Segment& segment = piece.slot->segment;
    std::byte* const memory = segment.buffer.data() + (page_floor(piece.begin) - page_floor(segment.begin));
    lock.unlock();
    std::exception_ptr failure;
    try {
      reader_.read_pages(piece.begin, piece.end, memory);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) piece.slot->failure = failure;
    --piece.slot->pieces_reading;
    changed_.notify_all();
  }
}

bool ReadAhead::next(Segment& segment) {
  segment = {};
  std::unique_lock lock(mutex_);
  for (;;) {
    if (slots_.empty() && waiting_next_ == waiting_.size()) return false;
    if (!slots_.empty()) {
      Slot& slot = *slots_.front();
      if (slot.failure && slot.pieces_reading == 0) std::rethrow_exception(slot.failure);
      const bool complete =
          slot.next_piece >= slot.segment.begin + slot.segment.bytes && slot.pieces_reading == 0;
      if (complete && !slot.failure) break;
    }
    changed_.wait(lock);
  }
  segment = std::move(slots_.front()->segment);
  slots_.pop_front();
  bytes_ahead_ -= hull_bytes(segment);
  changed_.notify_all();
  return true;
}

}  // namespace glint::quantize
