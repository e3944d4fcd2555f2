// Reads ranges of a file in order, ahead of who uses them, past the page cache where the file system allows
// it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "quantize/buffers.h"

namespace glint::quantize {

/// An open source file, with O_DIRECT if that works.
class SourceReader {
 public:
  /// Throws not_found or io from the system; bad_input if the file is no longer of the size and time that the
  /// plan saw.
  SourceReader(const std::filesystem::path& path, int64_t bytes, int64_t modified_ns);
  ~SourceReader();
  SourceReader(const SourceReader&) = delete;
  SourceReader& operator=(const SourceReader&) = delete;

  /// Throws bad_input if the file changed since the plan.
  void check_unchanged() const;

  /// Bytes [begin, begin + buffer.size()) of the file. Throws io from the system and on a file that ends
  /// early.
  void read(int64_t begin, std::span<std::byte> buffer) const;

  /// Bytes of [begin, end) and around them to whole pages, to memory + (begin's place in its page). `memory`
  /// is page-aligned and holds whole pages.
  void read_pages(int64_t begin, int64_t end, std::byte* memory) const;

 private:
  [[noreturn]] void fail_short(int64_t place) const;

  std::filesystem::path path_;
  int64_t bytes_;
  int64_t modified_ns_;
  int buffered_ = -1;
  int direct_ = -1;
};

/// A range and the bytes that were read for it.
struct Segment {
  size_t step = 0;    // the caller's number
  int64_t begin = 0;  // in the file
  int64_t bytes = 0;
  Buffer buffer;

  [[nodiscard]] std::span<const std::byte> data() const;
};

class ReadAhead {
 public:
  /// Reads `segments` in order with several threads, at most `bytes_ahead` (but at least one segment) ahead.
  /// The reader and the pool must outlive it.
  ReadAhead(const SourceReader& reader, BufferPool& pool, std::vector<Segment> segments, int64_t bytes_ahead);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// The next segment with its bytes; false after the last. Throws what its read threw.
  bool next(Segment& segment);

 private:
  struct Slot {
    Segment segment;
    int64_t next_piece = 0;  // file offset of the next piece that no thread reads yet
    int pieces_reading = 0;
    std::exception_ptr failure;
  };
  struct Piece {
    Slot* slot = nullptr;
    int64_t begin = 0;
    int64_t end = 0;
  };

  void thread_loop();
  bool take_piece(std::unique_lock<std::mutex>& lock, Piece& piece);

  const SourceReader& reader_;
  BufferPool& pool_;
  std::vector<Segment> waiting_;
  size_t waiting_next_ = 0;
  int64_t bytes_ahead_max_;
  int64_t bytes_ahead_ = 0;
  std::deque<std::unique_ptr<Slot>> slots_;
  bool stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
};

}  // namespace glint::quantize
