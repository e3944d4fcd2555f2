// Writes a stand-in checkpoint: the layout, names and formats of the published ones with deterministic
// values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "checkpoint/config.h"
#include "checkpoint/plan.h"

namespace glint {

inline constexpr int64_t kShardBytesDefault = 5'000'000'000;

struct MakeCheckpointOptions {
  std::string config_text;  // config.json as it was read; copied but for `quantization_config`
  std::string config_name;  // names it in errors
  uint64_t seed = 0;
  CheckpointFormat format = CheckpointFormat::bf16;
  std::filesystem::path folder;              // made if it is missing
  int64_t shard_bytes = kShardBytesDefault;  // a tensor that would pass this limit starts the next shard
  bool replace = false;                      // write into a folder that already holds a checkpoint
  int threads = 0;                           // 0: one per CPU
  std::function<void(int64_t done, int64_t total)>
      progress;  // tensor bytes; called on the calling thread, may be empty
  /// Writes what a room above adds (the tokenizer) into the folder; called before the shards, may be empty.
  std::function<void(const ModelConfig& config, const std::filesystem::path& folder)> side_files;
};

struct MadeCheckpoint {
  int64_t tensors = 0;
  int64_t shards = 0;
  int64_t tensor_bytes = 0;
};

/// Writes the shards (the bytes do not depend on `threads`), then model.safetensors.index.json,
/// generation_config.json, hf_quant_config.json for nvfp4, and config.json last, so that a folder left half
/// written is never taken for a checkpoint. Memory: a few rows of one tensor per thread. Throws bad_input on
/// a config that is refused, a folder that holds a checkpoint already, a shape that the format cannot hold;
/// io from the system.
MadeCheckpoint make_checkpoint(const MakeCheckpointOptions& options);

}  // namespace glint
