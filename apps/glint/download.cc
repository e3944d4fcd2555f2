// glint download: a hub's model into the cache, without serving it.

#include <iostream>
#include <memory>

#include "base/error.h"
#include "commands.h"
#include "model_option.h"

namespace glint {

namespace {

struct Flags {
  ModelOption model;
  bool config_only = false;
};

void run(const Flags& flags) {
  ResolveOptions options;
  options.files = flags.config_only ? ModelFiles::config : ModelFiles::all;
  options.revision = flags.model.revision;
  options.download_dir = flags.model.download_dir;
  options.refresh = true;
  const std::optional<ResolvedModel> model = resolve_model(flags.model.name, options);
  GLINT_CHECK(model.has_value());
  if (model->source == ResolvedModel::Source::folder) {
    fail(ErrorKind::bad_input, flags.model.name, " is a folder here: there is nothing to download");
  }
  std::cout << model->folder.string() << "\n";
}

}  // namespace

void add_download(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "download", "Bring a hub's model, or its newer commit, into Hugging Face's cache and print its folder");
  const auto flags = std::make_shared<Flags>();
  command->add_option("MODEL", flags->model.name, "The model as ORG/NAME")->required();
  add_model_options(*command, flags->model);
  command->add_flag("--config-only", flags->config_only, "What glint plan needs, no weights");
  command->callback([flags] { run(*flags); });
}

}  // namespace glint
