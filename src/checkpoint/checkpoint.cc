#include "checkpoint/checkpoint.h"

#include <cmath>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/numeric.h"
#include "checkpoint/plan.h"
#include "checkpoint/shard_set.h"
#include "checkpoint/tensor_resolver.h"

namespace glint {

namespace {

class ShardedCheckpoint : public Checkpoint {
 public:
  explicit ShardedCheckpoint(const std::filesystem::path& folder)
      : folder_(folder), config_(load_model_config(folder / "config.json")), set_(open_shards(folder)) {
    TensorResolver resolver(config_, set_.shards, set_.listing);
    for (const ModelTensor& tensor : model_tensors(config_)) {
      if (tensor.shape.size() == 1) {
        vectors_.emplace(tensor.name, resolver.vector(tensor));
      } else {
        constexpr size_t kSuffix = std::string_view(".weight").size();
        matrices_.emplace(tensor.name.substr(0, tensor.name.size() - kSuffix), resolver.matrix(tensor));
      }
    }
    resolver.refuse_unknown(set_.shards);
    for (const SafetensorsFile& shard : set_.shards) {
      file_bytes_ += shard.file_bytes();
      tensor_bytes_ += shard.file_bytes() - shard.table().data_begin();
      by_address_.emplace(shard.mapping().data(), &shard);
    }
  }

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const std::filesystem::path& folder() const override { return folder_; }
  [[nodiscard]] int64_t tensor_bytes() const override { return tensor_bytes_; }
  [[nodiscard]] int64_t file_bytes() const override { return file_bytes_; }

  [[nodiscard]] int64_t shards() const override { return static_cast<int64_t>(set_.shards.size()); }

  [[nodiscard]] TensorCounts tensor_counts() const override {
    TensorCounts counts;
    for (const SafetensorsFile& shard : set_.shards) {
      for (const TensorEntry& entry : shard.table().tensors()) counts.add(entry.dtype, entry.bytes());
    }
    return counts;
  }

  [[nodiscard]] Weight matrix(const std::string& module) const override {
    const auto at = matrices_.find(module);
    if (at == matrices_.end())
      fail(ErrorKind::internal, folder_.string(), ": the model has no matrix ", module);
    Weight weight = at->second.weight;
    if (const StoredTensor& scale = at->second.global_scale; scale) {
      weight.global_scale = load_unaligned<float>(scale.data());
      if (!std::isfinite(weight.global_scale) || weight.global_scale <= 0) {
        fail(ErrorKind::bad_input, scale.file->path().string(), ": tensor ", scale.entry->name, " is ",
             weight.global_scale, ", expected a finite number above 0");
      }
    }
    return weight;
  }

  [[nodiscard]] std::vector<float> vector(const std::string& name) const override {
    const auto at = vectors_.find(name);
    if (at == vectors_.end()) fail(ErrorKind::internal, folder_.string(), ": the model has no vector ", name);
    const StoredTensor& stored = at->second;
    const bool wide = stored.entry->dtype == Dtype::f32;
    std::vector<float> values(static_cast<size_t>(stored.entry->shape[0]));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = wide ? load_unaligned<float>(stored.data() + 4 * i)
                       : bf16_to_float(load_unaligned<uint16_t>(stored.data() + 2 * i));
    }
    return values;
  }

  [[nodiscard]] std::optional<FilePlace> file_place(const void* data) const override {
    const auto* const byte = static_cast<const std::byte*>(data);
    const auto after = by_address_.upper_bound(byte);
    if (after == by_address_.begin()) return std::nullopt;
    const auto& [begin, shard] = *std::prev(after);
    if (byte - begin >= shard->file_bytes()) return std::nullopt;
    return FilePlace{&shard->path(), byte - begin};
  }

  void read_all(const std::function<bool(int64_t, int64_t)>& progress) const override {
    read_shards(set_.shards, progress);
  }

 private:
  std::filesystem::path folder_;
  ModelConfig config_;
  ShardSet set_;
  std::unordered_map<std::string, StoredMatrix> matrices_;
  std::unordered_map<std::string, StoredTensor> vectors_;
  std::map<const std::byte*, const SafetensorsFile*> by_address_;  // where each is mapped
  int64_t tensor_bytes_ = 0;
  int64_t file_bytes_ = 0;
};

}  // namespace

std::shared_ptr<const Checkpoint> Checkpoint::open(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) {
    fail(ErrorKind::not_found, folder.string(), ": not a folder, expected one that holds a checkpoint");
  }
  return std::make_shared<ShardedCheckpoint>(folder);
}

}  // namespace glint
