// A checkpoint's tensors with their bytes, whatever form they are stored in.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/plan.h"
#include "checkpoint/shard_set.h"
#include "quantize/plan.h"

namespace glint::quantize {

struct ViewTensor {
  ModelTensor model;
  Form form = Form::bf16;
  std::array<std::span<const std::byte>, 4> stored;  // the weight, then its scales in the order of the form
  uint32_t stored_count = 0;

  [[nodiscard]] bool is_projection() const {
    return model.role == TensorRole::projection || model.role == TensorRole::routed_expert;
  }
  /// weight_scale_2 of an NVFP4 tensor.
  [[nodiscard]] float global_scale() const;
  /// Rows [begin, end) as float32 values, as a reader of the checkpoint sees them.
  void decode(int64_t begin, int64_t end, std::vector<float>& values) const;
};

class CheckpointView {
 public:
  /// Throws as Checkpoint::open does; unsupported for compressed-tensors.
  explicit CheckpointView(const std::filesystem::path& folder);

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  /// In the order of the model.
  [[nodiscard]] const std::vector<ViewTensor>& tensors() const { return tensors_; }
  [[nodiscard]] int64_t stored_tensors() const { return stored_tensors_; }
  [[nodiscard]] int64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] std::vector<std::string> files() const;

 private:
  ModelConfig config_;
  ShardSet set_;
  std::vector<ViewTensor> tensors_;
  int64_t stored_tensors_ = 0;
  int64_t file_bytes_ = 0;
};

}  // namespace glint::quantize
