// What every command that takes a model has in common: where it may come from.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "checkpoint/hub/resolve.h"

namespace glint {

/// The words of help that stand for a model.
inline constexpr const char* kModelHelp = "The model: a folder, or ORG/NAME of a hub";

struct ModelOption {
  std::string name;  // as the user wrote it
  std::string revision;
  std::string download_dir;
};

/// --revision and --download-dir.
void add_model_options(CLI::App& command, ModelOption& flags);

/// The model's folder with the files that are `wanted`, downloaded if need be. Throws one line; not_found for
/// a folder without config.json.
ResolvedModel find_model(const ModelOption& flags, ModelFiles wanted);

}  // namespace glint
