#include "checkpoint/make_checkpoint.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/threads.h"
#include "checkpoint/config_text.h"
#include "checkpoint/index.h"
#include "checkpoint/quantization_config.h"
#include "checkpoint/shard_plan.h"
#include "checkpoint/standin_writer.h"

namespace glint {

namespace {

constexpr const char* kQuantizationKey = "quantization_config";

void prepare_folder(const MakeCheckpointOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (!std::filesystem::is_directory(options.folder)) {
    fail(ErrorKind::io, options.folder.string(), ": cannot make this folder: ", error.message());
  }
  for (const auto& entry : std::filesystem::directory_iterator(options.folder)) {
    const std::filesystem::path name = entry.path().filename();
    if (name.extension() != ".safetensors" && name != "config.json") continue;
    if (!options.replace) {
      fail(ErrorKind::bad_input, options.folder.string(), ": already holds ", name.string(),
           ": choose an empty folder, or write into this one with --replace");
    }
    std::filesystem::remove(entry.path());
  }
}

/// The value as indented text at a depth of one level.
std::string member_text(const OrderedJson& value) {
  std::string text;
  for (const char c : value.dump(2)) {
    text += c;
    if (c == '\n') text += "  ";
  }
  return text;
}

std::string config_json(const MakeCheckpointOptions& options, const ModelConfig& config) {
  if (options.format == CheckpointFormat::bf16)
    return remove_json_member(options.config_text, kQuantizationKey);
  return set_json_member(options.config_text, kQuantizationKey,
                         member_text(quantization_config(config, options.format)));
}

std::string generation_config_json(const MakeCheckpointOptions& options) {
  const Json source = parse_json(options.config_text, options.config_name);
  OrderedJson generation = {
      {"temperature", 1.0}, {"top_p", 0.95}, {"eos_token_id", source.at("eos_token_id")}};
  if (source.contains("pad_token_id")) generation["pad_token_id"] = source.at("pad_token_id");
  return generation.dump(2) + "\n";
}

void write_shards(const MakeCheckpointOptions& options, StandinWriter& writer, int64_t total_bytes) {
  ThreadPool pool(options.threads);
  pool.run(writer.pieces(), [&](int64_t piece, int worker) {
    writer.write(piece);
    if (worker == 0 && options.progress) options.progress(writer.bytes_written(), total_bytes);
  });
  if (options.progress) options.progress(writer.bytes_written(), total_bytes);
  GLINT_CHECK(writer.bytes_written() == total_bytes);
}

}  // namespace

MadeCheckpoint make_checkpoint(const MakeCheckpointOptions& options) {
  const ModelConfig config = parse_model_config(options.config_text, options.config_name);
  ShardPlan plan(options.folder, options.shard_bytes);
  StandinWriter writer(config, options.format, options.seed, plan);
  prepare_folder(options);
  if (options.side_files) options.side_files(config, options.folder);
  write_shards(options, writer, plan.tensor_bytes());

  const auto weight_map = plan.weight_map();
  write_file_atomically(options.folder / "model.safetensors.index.json",
                        checkpoint_index_text(weight_map, plan.tensor_bytes()));
  write_file_atomically(options.folder / "generation_config.json", generation_config_json(options));
  if (options.format == CheckpointFormat::nvfp4) {
    write_file_atomically(options.folder / "hf_quant_config.json", hf_quant_config(config).dump(4) + "\n");
  }
  write_file_atomically(options.folder / "config.json", config_json(options, config));
  return {static_cast<int64_t>(weight_map.size()), static_cast<int64_t>(plan.shards()), plan.tensor_bytes()};
}

}  // namespace glint
