// Files with one-line errors: whole ones, and one to read from at any place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace glint {

/// The file's bytes. Throws not_found or io with the path; bad_input if it is larger than `bytes_max`.
std::string read_file(const std::filesystem::path& path, size_t bytes_max = size_t{1} << 30);

/// Writes `path` whole or not at all: a temporary file beside it, fsync, rename, fsync of the folder. Throws
/// io.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// A file to read from at any place.
class InputFile {
 public:
  /// Throws not_found or io with the path.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Fills `out` with what stands at `offset`. Throws io with the path, also if the file ends before.
  void read(int64_t offset, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace glint
