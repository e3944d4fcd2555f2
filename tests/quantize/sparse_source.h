// The published BF16 repository's layout without its bytes: every shard has its real header and size, and
// holes for data.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/config.h"
#include "checkpoint/index.h"
#include "checkpoint/plan.h"
#include "tensor/safetensors.h"

namespace glint::quantize {

/// Cuts as the hub's tools do (the next tensor would pass the limit, in the order of the model) and orders
/// each shard as the reference writer does (wide types first, then by name). Returns the number of shards.
inline size_t write_sparse_source(const std::filesystem::path& config_file,
                                  const std::filesystem::path& folder, int64_t limit = int64_t{5} << 30) {
  std::filesystem::create_directories(folder);
  const std::string config_text = read_file(config_file);
  const ModelConfig config = parse_model_config(config_text, "config.json");
  std::vector<std::vector<TensorSpec>> shards(1);
  int64_t bytes = 0;
  int64_t total = 0;
  for (const ModelTensor& tensor : model_tensors(config)) {
    const TensorSpec spec = stored_tensors(tensor, config, CheckpointFormat::bf16).at(0);
    if (!shards.back().empty() && bytes + spec.bytes() > limit) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += spec.bytes();
    total += spec.bytes();
    shards.back().push_back(spec);
  }
  std::vector<std::pair<std::string, std::string>> map;
  for (size_t i = 0; i < shards.size(); ++i) {
    std::sort(shards[i].begin(), shards[i].end(), [](const TensorSpec& a, const TensorSpec& b) {
      return std::pair(-dtype_bytes(a.dtype), a.name) < std::pair(-dtype_bytes(b.dtype), b.name);
    });
    std::array<char, 64> name{};
    std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
    const std::string head = safetensors_head(shards[i], {{"format", "pt"}});
    auto size = static_cast<int64_t>(head.size());
    for (const TensorSpec& spec : shards[i]) {
      size += spec.bytes();
      map.emplace_back(spec.name, name.data());
    }
    write_file_atomically(folder / name.data(), head);
    std::filesystem::resize_file(folder / name.data(), static_cast<uintmax_t>(size));
  }
  write_file_atomically(folder / "model.safetensors.index.json",
                        checkpoint_index_text(std::move(map), total));
  write_file_atomically(folder / "config.json", config_text);
  return shards.size();
}

}  // namespace glint::quantize
