// The small models that come with the program, found by their bare names ("nano").
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glint {

/// Folders that may hold bundled models, in the order of the search: GLINT_MODELS_DIR if it is set (then no
/// other), else ../share/glint/models beside the program's folder, and `models` of the source tree that the
/// program was built in (the nearest folder above it that holds CMakeLists.txt and models). `program` is the
/// program's own file.
std::vector<std::filesystem::path> bundled_model_folders(const std::filesystem::path& program);
/// The same of the running program.
std::vector<std::filesystem::path> bundled_model_folders();

/// The folder of the bundled model `name`; nothing if there is none, or if `name` is not a bare name
/// (letters, digits,
/// '-', '_', '.'; no path).
std::optional<std::filesystem::path> find_bundled_model(std::string_view name);

/// `text` if it is a folder (one called "nano" here comes before the bundled one), else the bundled model of
/// that name. Throws not_found, naming the places that were searched.
std::filesystem::path folder_or_bundled_model(const std::string& text);

}  // namespace glint
