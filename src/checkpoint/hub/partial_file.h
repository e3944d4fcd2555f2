// A file on its way: what has come so far lies on disk and in a running sum.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "base/digest.h"
#include "checkpoint/hub/hub_api.h"

namespace glint::hub {

class PartialFile {
 public:
  /// Opens or makes `path`; bytes that an earlier run left are read once for the sum. Throws io.
  PartialFile(std::filesystem::path path, const RemoteFile& file);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] bool whole() const { return bytes_ == file_.bytes; }

  /// Throws Retryable for bytes beyond the file's size, io if the disk is full or fails.
  void append(std::span<const std::byte> bytes);
  /// Throws away what has come.
  void restart();
  /// The sum of what has come; nothing can be appended any more.
  std::string sum();
  /// Makes the file durable and gives it its final name, in one step. Throws io.
  void publish(const std::filesystem::path& path);

 private:
  void open();
  void start_sum();

  std::filesystem::path path_;
  const RemoteFile& file_;
  int fd_ = -1;
  int64_t bytes_ = 0;
  std::optional<Digest> digest_;
};

}  // namespace glint::hub
