// Cuts the stored tensors of a checkpoint into shards and writes them from several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/tensor_sink.h"

namespace glint {

/// Collects tensors in file order, then writes them in any order. A shard's file is open from its first byte
/// to its last, so writing in file order keeps few files open.
class ShardPlan final : public TensorSink {
 public:
  ShardPlan(std::filesystem::path folder, int64_t shard_bytes);

  /// Appends a tensor: to the current shard, or to a new one if it would pass the limit and the current one
  /// is not empty.
  TensorPlace add(TensorSpec tensor) override;

  /// Writes bytes of a tensor; the last byte of a shard gives the file its name. Any thread. Throws io.
  void write(TensorPlace place, int64_t offset, std::span<const std::byte> bytes) override;

  [[nodiscard]] int64_t tensor_bytes() const { return tensor_bytes_; }
  [[nodiscard]] size_t shards() const { return shards_.size(); }
  /// "model-00001-of-00003.safetensors": final once all tensors are added.
  [[nodiscard]] std::string file_name(size_t shard) const;
  /// Every tensor's name with its shard's file.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> weight_map() const;

 private:
  struct Shard {
    std::vector<TensorSpec> tensors;
    int64_t bytes = 0;
    std::mutex mutex;  // guards the two below
    std::unique_ptr<SafetensorsWriter> writer;
    std::atomic<int64_t> missing_bytes{0};
  };

  std::filesystem::path folder_;
  int64_t shard_bytes_;
  int64_t tensor_bytes_ = 0;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace glint
