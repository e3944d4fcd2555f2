// The shards of the output while they are written, at places that the plan fixed.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "quantize/plan.h"

namespace glint::quantize {

class OutputFiles {
 public:
  /// Files go to `folder`, named NAME.partial until they are finished; an empty folder discards all bytes.
  /// `complete(shard)` is called by the writer of a shard's last byte.
  OutputFiles(const Plan& plan, std::filesystem::path folder, std::function<void(uint32_t shard)> complete);
  /// Removes unfinished files.
  ~OutputFiles();
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  /// The shard is there already: nothing will be written to it.
  void mark_done(uint32_t shard);
  [[nodiscard]] bool is_done(uint32_t shard) const { return shards_[shard]->done; }

  /// Bytes at `offset` of an output tensor. Any thread. Throws io.
  void write(uint32_t output, int64_t offset, std::span<const std::byte> bytes);
  template <class T>
  void write_values(uint32_t output, int64_t offset, const T* values, int64_t count) {
    write(output, offset, std::as_bytes(std::span(values, static_cast<size_t>(count))));
  }

  /// Reads a complete shard back from its file, flushes it to the disk and gives it its name; returns its
  /// SHA-256. `progress(bytes)` after each part. Throws io.
  std::string finish(uint32_t shard, const std::function<void(int64_t bytes)>& progress);

 private:
  struct Shard {
    std::mutex mutex;
    int descriptor = -1;
    std::atomic<int64_t> missing{0};
    std::atomic<bool> done{false};
  };

  [[nodiscard]] std::filesystem::path path(uint32_t shard, bool partial) const;
  [[noreturn]] void fail_write(uint32_t shard, const char* verb) const;
  int open(uint32_t shard);
  void write_at(uint32_t shard, int descriptor, int64_t place, std::span<const std::byte> bytes) const;

  const Plan& plan_;
  std::filesystem::path folder_;
  std::function<void(uint32_t)> complete_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace glint::quantize
