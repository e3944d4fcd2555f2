// The shards of a checkpoint folder, opened and compared with the index.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tensor/safetensors.h"

namespace glint {

struct ShardSet {
  std::vector<SafetensorsFile> shards;
  std::string listing;  // the file that lists all tensors: the index, or the only shard
};

/// Opens every shard that model.safetensors.index.json in `folder` names, or model.safetensors if there is no
/// index. Throws not_found or bad_input on a missing shard, and on a tensor that the index and the shards do
/// not place alike.
ShardSet open_shards(const std::filesystem::path& folder);

/// Threads that read files side by side.
[[nodiscard]] int shard_readers();

/// Reads all bytes of all shards, so that they lie in the page cache and are mapped; several reads in flight.
/// `progress(done, total)` is called on this thread about every 100 ms and at the end; false stops early.
/// Throws io naming the shard.
void read_shards(const std::vector<SafetensorsFile>& shards,
                 const std::function<bool(int64_t, int64_t)>& progress);

}  // namespace glint
