#include "checkpoint/shard_plan.h"

#include <array>
#include <cstdio>

#include "base/error.h"

namespace glint {

ShardPlan::ShardPlan(std::filesystem::path folder, int64_t shard_bytes)
    : folder_(std::move(folder)), shard_bytes_(shard_bytes) {
  if (shard_bytes < 1) fail(ErrorKind::bad_input, "--shard-bytes is ", shard_bytes, ", expected at least 1");
}

TensorPlace ShardPlan::add(TensorSpec tensor) {
  const int64_t bytes = tensor.bytes();
  if (shards_.empty() || (!shards_.back()->tensors.empty() && bytes > shard_bytes_ - shards_.back()->bytes)) {
    shards_.push_back(std::make_unique<Shard>());
  }
  Shard& shard = *shards_.back();
  shard.bytes += bytes;
  shard.missing_bytes += bytes;
  tensor_bytes_ += bytes;
  shard.tensors.push_back(std::move(tensor));
  return {shards_.size() - 1, shard.tensors.size() - 1};
}

void ShardPlan::write(TensorPlace place, int64_t offset, std::span<const std::byte> bytes) {
  Shard& shard = *shards_.at(place.shard);
  {
    const std::lock_guard lock(shard.mutex);
    if (!shard.writer) {
      shard.writer = std::make_unique<SafetensorsWriter>(folder_ / file_name(place.shard), shard.tensors);
    }
  }
  const auto count = static_cast<int64_t>(bytes.size());
  shard.writer->write(place.tensor, offset, bytes);
  if (shard.missing_bytes.fetch_sub(count) != count) return;
  shard.writer->finish();
  shard.writer.reset();
}

std::string ShardPlan::file_name(size_t shard) const {
  std::array<char, 64> name{};
  (void)std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors", shard + 1,
                      shards_.size());
  return name.data();
}

std::vector<std::pair<std::string, std::string>> ShardPlan::weight_map() const {
  std::vector<std::pair<std::string, std::string>> map;
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    const std::string file = file_name(shard);
    for (const TensorSpec& tensor : shards_[shard]->tensors) map.emplace_back(tensor.name, file);
  }
  return map;
}

}  // namespace glint
