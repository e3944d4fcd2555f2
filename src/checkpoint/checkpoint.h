// An opened checkpoint folder: config, shards mapped into memory, every tensor checked against the config.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/plan.h"
#include "checkpoint/standin_values.h"
#include "tensor/weight.h"

namespace glint {

class Checkpoint {
 public:
  /// Opens and checks the folder: config.json, index, every shard's header, every tensor's name, dtype and
  /// shape, the presence of scales. Reads no weight bytes. Throws one-line errors that name the file, the
  /// tensor or key, what was found and what was expected.
  static std::shared_ptr<const Checkpoint> open(const std::filesystem::path& folder);
  virtual ~Checkpoint() = default;

  [[nodiscard]] virtual const ModelConfig& config() const = 0;
  [[nodiscard]] virtual const std::filesystem::path& folder() const = 0;

  /// A two-dimensional weight by its module name without ".weight" ("model.layers.0.self_attn.q_a_proj",
  /// "lm_head", "model.embed_tokens"). The stored dtype and the scale tensors beside it decide the format.
  /// The view lives as long as the checkpoint. Throws internal if the config has no such tensor.
  [[nodiscard]] virtual Weight matrix(const std::string& module) const = 0;

  /// A one-dimensional tensor by its full name ("model.norm.weight"), widened to float32.
  [[nodiscard]] virtual std::vector<float> vector(const std::string& name) const = 0;

  /// Bytes of all tensors, and of all files as they lie on disk.
  [[nodiscard]] virtual int64_t tensor_bytes() const = 0;
  [[nodiscard]] virtual int64_t file_bytes() const = 0;

  /// Tensors and bytes by stored dtype, and the number of files.
  [[nodiscard]] virtual TensorCounts tensor_counts() const = 0;
  [[nodiscard]] virtual int64_t shards() const = 0;

  /// Brings all shards into memory (the page cache), several reads in flight; `progress(done_bytes,
  /// total_bytes)` is called now and then from this thread and may return false to stop. A failed read throws
  /// io naming the shard.
  virtual void read_all(const std::function<bool(int64_t, int64_t)>& progress) const = 0;

  /// Where a byte stands on disk.
  struct FilePlace {
    const std::filesystem::path* file = nullptr;  // lives as long as the checkpoint
    int64_t offset = 0;
  };
  /// Where the bytes behind `data`, an address within a view, are read from; nothing if from no file.
  [[nodiscard]] virtual std::optional<FilePlace> file_place(const void* /*data*/) const {
    return std::nullopt;
  }

  /// What the matrix whose view has this `data` is computed from, if this checkpoint computes its weights
  /// (dummy_checkpoint.h); nothing if they are read.
  [[nodiscard]] virtual std::optional<StandinValues> generated(const void* /*data*/) const {
    return std::nullopt;
  }
};

}  // namespace glint
