#include "places.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "server/generation_options.h"

namespace glint {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(std::string_view flag, const fs::path& path, std::string_view reason) {
  fail(ErrorKind::bad_input, "argument ", flag, ": ", path.string(), ": ", reason);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

void check_written(std::string_view flag, const fs::path& folder) {
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    const int error = errno;
    refuse(flag, folder, cat("cannot be written to: ", std::strerror(error)));
  }
}

/// A folder, or a path that can become one.
void check_folder_to_come(std::string_view flag, const fs::path& path) {
  std::error_code ignored;
  fs::path there = fs::absolute(path, ignored);
  while (!fs::exists(there, ignored) && there.has_relative_path()) there = there.parent_path();
  if (!is_folder(there)) refuse(flag, there, "is no folder");
}

void check_disk_folder(const fs::path& path) {
  constexpr std::string_view kFlag = "--kv-disk-dir";
  check_folder_to_come(kFlag, path);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) refuse(kFlag, path, cat("cannot be made: ", error.message()));
  check_written(kFlag, path);
}

void check_dump_file(const fs::path& path) {
  constexpr std::string_view kFlag = "--watchdog-dump";
  if (is_folder(path)) refuse(kFlag, path, "is a folder, expected a file");
  std::error_code ignored;
  const fs::path folder = fs::absolute(path, ignored).parent_path();
  if (!is_folder(folder)) refuse(kFlag, folder, "no such folder");
  check_written(kFlag, folder);
}

void check_generation_config(const std::string& where) {
  if (where == "auto" || where == "vllm") return;
  constexpr std::string_view kFlag = "--generation-config";
  if (!is_folder(where)) refuse(kFlag, where, "no such folder (or auto, or vllm)");
  std::error_code ignored;
  if (!fs::exists(fs::path(where) / "generation_config.json", ignored)) {
    refuse(kFlag, where, "does not contain generation_config.json");
  }
  (void)load_sampling_defaults(where);
}

}  // namespace

void check_places(const ServeFlags& flags) {
  check_generation_config(flags.serve.generation_config);
  if (!flags.download_dir.empty()) check_folder_to_come("--download-dir", flags.download_dir);
  if (const std::string& file = flags.serve.api.health.watchdog.dump_file; !file.empty())
    check_dump_file(file);
  // With --kv-disk-bytes alone missing it is the plan that refuses: nothing is made for it.
  if (!flags.engine.kv_disk_dir.empty() && flags.engine.kv_disk_bytes > 0)
    check_disk_folder(flags.engine.kv_disk_dir);
}

}  // namespace glint
