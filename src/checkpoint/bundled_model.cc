#include "checkpoint/bundled_model.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"

namespace glint {

namespace fs = std::filesystem;

namespace {

bool is_bare_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

}  // namespace

std::vector<fs::path> bundled_model_folders(const fs::path& program) {
  if (const char* folder = std::getenv("GLINT_MODELS_DIR"); folder != nullptr && *folder != '\0')
    return {folder};
  if (program.empty()) return {};
  std::vector<fs::path> folders{program.parent_path().parent_path() / "share/glint/models"};
  for (fs::path above = program.parent_path(); above != above.parent_path(); above = above.parent_path()) {
    if (!is_there(above / "CMakeLists.txt") || !is_folder(above / "models")) continue;
    folders.push_back(above / "models");
    break;
  }
  return folders;
}

std::vector<fs::path> bundled_model_folders() {
  std::error_code ignored;
  return bundled_model_folders(fs::read_symlink("/proc/self/exe", ignored));
}

std::optional<fs::path> find_bundled_model(std::string_view name) {
  if (!is_bare_name(name)) return std::nullopt;
  for (const fs::path& folder : bundled_model_folders()) {
    if (is_there(folder / name / "config.json")) return folder / name;
  }
  return std::nullopt;
}

fs::path folder_or_bundled_model(const std::string& text) {
  if (is_folder(text)) return text;
  if (auto folder = find_bundled_model(text)) return *folder;
  std::string searched;
  if (is_bare_name(text)) {
    for (const fs::path& folder : bundled_model_folders()) searched += ", nor one in " + folder.string();
  }
  fail(ErrorKind::not_found, text, ": no such folder", searched);
}

}  // namespace glint
