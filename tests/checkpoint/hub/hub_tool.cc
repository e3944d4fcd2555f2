// hub_tool NAME [--files config|text|all] [--revision R] [--download-dir D] [--refresh]: resolve_model() for
// the tests in Python, with short pauses. Prints "SOURCE COMMIT FOLDER"; errors as glint prints them.
#include <cstring>
#include <iostream>
#include <string>

#include "base/error.h"
#include "checkpoint/hub/resolve.h"

namespace {

glint::ModelFiles files_of(const std::string& text) {
  if (text == "config") return glint::ModelFiles::config;
  if (text == "text") return glint::ModelFiles::text;
  return glint::ModelFiles::all;
}

const char* source_name(glint::ResolvedModel::Source source) {
  switch (source) {
    case glint::ResolvedModel::Source::folder:
      return "folder";
    case glint::ResolvedModel::Source::cache:
      return "cache";
    case glint::ResolvedModel::Source::hub:
      return "hub";
  }
  return "?";
}

int run(int argc, char** argv) {
  glint::ResolveOptions options;
  options.first_pause = std::chrono::milliseconds(5);
  for (int i = 2; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--refresh") {
      options.refresh = true;
      continue;
    }
    if (++i == argc) return 64;
    if (flag == "--files") options.files = files_of(argv[i]);
    if (flag == "--revision") options.revision = argv[i];
    if (flag == "--download-dir") options.download_dir = argv[i];
  }
  const auto model = glint::resolve_model(argv[1], options);
  std::cout << source_name(model->source) << " " << (model->commit.empty() ? "-" : model->commit) << " "
            << model->folder.string() << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 64;
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "glint: " << error.what() << "\n";
    return 1;
  }
}
