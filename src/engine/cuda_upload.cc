#include "engine/cuda_upload.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "base/file.h"
#include "checkpoint/shard_set.h"
#include "engine/cuda_memory.h"

namespace glint {

namespace {

// Small: pinning memory takes longer than filling it, and a piece should stay in the caches until it is sent.
constexpr int64_t kPieceBytes = int64_t{2} << 20;
constexpr auto kReportInterval = std::chrono::milliseconds(20);

struct Piece {
  UploadRange range;
  std::optional<Checkpoint::FilePlace> file;
};

class Uploader {
 public:
  Uploader(const std::vector<UploadRange>& ranges, const Checkpoint* files) {
    ops::cuda::check(cudaGetDevice(&device_), "asking for the device");
    for (const UploadRange& range : ranges) {
      total_ += range.bytes;
      auto file = files == nullptr ? std::nullopt : files->file_place(range.from);
      for (int64_t at = 0; at < range.bytes; at += kPieceBytes) {
        pieces_.push_back({{range.from + at, range.to + at, std::min(kPieceBytes, range.bytes - at)}, file});
        if (file) file->offset += kPieceBytes;
      }
    }
  }

  void run(const std::function<bool(int64_t, int64_t)>& progress) {
    const int lanes = std::min(shard_readers(), static_cast<int>(std::min<size_t>(pieces_.size(), 1024)));
    busy_ = lanes;
    std::vector<std::thread> threads;
    for (int i = 0; i < lanes; ++i) threads.emplace_back([this] { work(); });
    report(progress);
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    if (stop_) fail(ErrorKind::io, "loading was stopped");
  }

 private:
  void report(const std::function<bool(int64_t, int64_t)>& progress) {
    std::unique_lock lock(mutex_);
    bool ended = false;
    while (!ended) {
      ended = finished_.wait_for(lock, kReportInterval, [this] { return busy_ == 0; });
      if (!progress) continue;
      lock.unlock();
      if (!progress(done_, total_)) stop_ = true;
      lock.lock();
    }
  }

  void work() {
    std::exception_ptr failure;
    try {
      send_pieces();
    } catch (...) {
      failure = std::current_exception();
      stop_ = true;
    }
    const std::lock_guard lock(mutex_);
    if (failure && !failure_) failure_ = failure;
    if (--busy_ == 0) finished_.notify_all();
  }

  /// One buffer is filled while the other is on its way.
  void send_pieces() {
    ops::cuda::check(cudaSetDevice(device_), "choosing the device");
    const DeviceStream streams[2];
    const PinnedBytes buffers[2] = {PinnedBytes(kPieceBytes), PinnedBytes(kPieceBytes)};
    std::optional<InputFile> opened;
    for (int turn = 0; !stop_; turn = 1 - turn) {
      const size_t i = next_++;
      if (i >= pieces_.size()) break;
      streams[turn].wait();
      fetch(pieces_[i], opened, buffers[turn].data());
      const UploadRange& range = pieces_[i].range;
      ops::cuda::check(cudaMemcpyAsync(range.to, buffers[turn].data(), static_cast<size_t>(range.bytes),
                                       cudaMemcpyHostToDevice, streams[turn].get()),
                       "copying weights");
      done_ += range.bytes;
    }
    for (const DeviceStream& stream : streams) stream.wait();
  }

  static void fetch(const Piece& piece, std::optional<InputFile>& opened, std::byte* to) {
    const auto bytes = static_cast<size_t>(piece.range.bytes);
    if (!piece.file) {
      std::memcpy(to, piece.range.from, bytes);
      return;
    }
    if (!opened || opened->path() != *piece.file->file) opened.emplace(*piece.file->file);
    opened->read(piece.file->offset, {to, bytes});
  }

  int device_ = 0;
  std::vector<Piece> pieces_;
  int64_t total_ = 0;
  std::atomic<size_t> next_{0};
  std::atomic<int64_t> done_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable finished_;
  int busy_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

void upload(const std::vector<UploadRange>& ranges, const Checkpoint* files,
            const std::function<bool(int64_t, int64_t)>& progress) {
  Uploader(ranges, files).run(progress);
}

}  // namespace glint
