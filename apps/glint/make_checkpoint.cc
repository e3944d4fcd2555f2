// glint make-checkpoint: a stand-in checkpoint with the published layout, for tests, demonstrations and
// benchmarks.

#include "checkpoint/make_checkpoint.h"

#include <iostream>
#include <memory>

#include "base/file.h"
#include "base/progress.h"
#include "checkpoint/report.h"
#include "commands.h"
#include "text/standin_tokenizer.h"

namespace glint {

namespace {

struct Flags {
  std::string config;
  std::string format;
  std::string out;
  uint64_t seed = 0;
  int64_t shard_bytes = kShardBytesDefault;
  bool replace = false;
};

void run(const Flags& flags) {
  MakeCheckpointOptions options;
  options.format = parse_format(flags.format);
  const std::filesystem::path given = flags.config;
  const std::filesystem::path config = std::filesystem::is_directory(given) ? given / "config.json" : given;
  options.config_text = read_file(config);
  options.config_name = config.string();
  options.folder = flags.out;
  options.seed = flags.seed;
  options.shard_bytes = flags.shard_bytes;
  options.replace = flags.replace;
  options.side_files = write_standin_tokenizer;
  Progress progress("Writing " + flags.out);
  options.progress = [&](int64_t done, int64_t total) { progress.update(done, total); };
  const MadeCheckpoint made = make_checkpoint(options);
  progress.finish(made.tensor_bytes);
  std::cout << flags.out << ": " << flags.format << ", " << grouped_digits(made.tensors) << " tensors in "
            << grouped_digits(made.shards) << " shards, " << grouped_digits(made.tensor_bytes) << " bytes\n";
}

}  // namespace

void add_make_checkpoint(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("make-checkpoint", "Write a stand-in checkpoint with random but fixed weights");
  const auto flags = std::make_shared<Flags>();
  command->add_option("--config", flags->config, "A config.json, or a folder that holds one")->required();
  command->add_option("--seed", flags->seed, "Chooses the weights")
      ->required()
      ->check(whole_number(0, UINT64_MAX));
  command->add_option("--format", flags->format, "bf16, fp8 or nvfp4")->required();
  command->add_option("--out", flags->out, "The folder to write")->required();
  command->add_option("--shard-bytes", flags->shard_bytes, "Tensor bytes in a shard, at most")
      ->check(whole_number(1, INT64_MAX))
      ->capture_default_str();
  command->add_flag("--replace", flags->replace, "Replace a checkpoint that the folder already holds");
  command->callback([flags] { run(*flags); });
}

}  // namespace glint
