// Whole-file helpers with one-line errors.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace glint {

/// The file's bytes. Throws not_found or io with the path; bad_input if it is larger than `bytes_max`.
std::string read_file(const std::filesystem::path& path, size_t bytes_max = size_t{1} << 30);

/// Writes `path` whole or not at all: a temporary file beside it, fsync, rename, fsync of the folder. Throws
/// io.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

}  // namespace glint
