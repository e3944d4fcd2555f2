// glint inspect: what a checkpoint holds, or what one made from a config would hold.

#include <iostream>
#include <memory>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/report.h"
#include "commands.h"
#include "model_option.h"

namespace glint {

namespace {

struct Flags {
  ModelOption model;
  std::string config;
  std::string format;
};

void inspect_folder(const Flags& flags) {
  if (!flags.format.empty())
    fail(ErrorKind::bad_input, "--format goes with --config only: a folder has its own format");
  const std::filesystem::path folder = find_model(flags.model, ModelFiles::all).folder;
  const auto checkpoint = Checkpoint::open(folder);
  std::cout << "checkpoint  " << folder.string() << "\n"
            << config_report(checkpoint->config()) << layer_report(checkpoint->config())
            << tensor_report(checkpoint->tensor_counts()) << "files       "
            << grouped_digits(checkpoint->shards()) << " shards, " << grouped_digits(checkpoint->file_bytes())
            << " bytes with headers\n";
}

void inspect_config(const Flags& flags) {
  const CheckpointFormat format = parse_format(flags.format.empty() ? "bf16" : flags.format);
  const ModelConfig config = load_model_config(flags.config);
  std::cout << "config      " << flags.config << " as " << format_name(format) << "\n"
            << config_report(config) << layer_report(config) << tensor_report(count_tensors(config, format));
}

void run(const Flags& flags) {
  if (flags.model.name.empty() == flags.config.empty()) {
    fail(ErrorKind::bad_input, "inspect wants either a model or --config FILE");
  }
  if (flags.config.empty()) {
    inspect_folder(flags);
  } else {
    inspect_config(flags);
  }
}

}  // namespace

void add_inspect(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("inspect", "Show a checkpoint's config, layers and tensors");
  const auto flags = std::make_shared<Flags>();
  command->add_option("MODEL", flags->model.name,
                      "The model, a folder or ORG/NAME of a hub: every header is checked");
  add_model_options(*command, flags->model);
  command->add_option("--config", flags->config,
                      "Instead: a config.json, to see what a checkpoint would hold");
  command->add_option("--format", flags->format, "With --config: bf16 (default), fp8 or nvfp4");
  command->callback([flags] { run(*flags); });
}

}  // namespace glint
