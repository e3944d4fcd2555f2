// Finds how each tensor of the model is stored, and refuses a set of stored tensors that is not exactly the
// model's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/plan.h"
#include "tensor/safetensors.h"
#include "tensor/weight.h"

namespace glint {

/// A tensor and the shard it lies in.
struct StoredTensor {
  const SafetensorsFile* file = nullptr;
  const TensorEntry* entry = nullptr;

  [[nodiscard]] explicit operator bool() const { return entry != nullptr; }
  [[nodiscard]] const std::byte* data() const { return file->data(*entry).data(); }
};

/// A matrix as it is stored. `weight.global_scale` is read from `global_scale` (NVFP4 only) when it is
/// needed, because opening reads no weight bytes.
struct StoredMatrix {
  Weight weight;
  StoredTensor global_scale;
};

class TensorResolver {
 public:
  /// All tensors of all shards. `listing` names, in errors about missing tensors, the file that should list
  /// them. Throws bad_input if a name stands in two shards. The shards must outlive the resolver.
  TensorResolver(const ModelConfig& config, const std::vector<SafetensorsFile>& shards, std::string listing);

  /// The one-dimensional tensor, dtype and shape checked.
  StoredTensor vector(const ModelTensor& tensor);

  /// The matrix in whichever form it is stored: BF16; FP8 E4M3 with weight_scale_inv; NVFP4 as ModelOpt (U8
  /// with weight_scale, weight_scale_2 and, if present, input_scale) or as compressed-tensors (weight_packed
  /// with weight_scale, weight_global_scale and, if present, input_global_scale). The embedding must be BF16.
  StoredMatrix matrix(const ModelTensor& tensor);

  /// Throws bad_input if any stored tensor was not asked for by the functions above.
  void refuse_unknown(const std::vector<SafetensorsFile>& shards) const;

 private:
  struct Slot {
    StoredTensor stored;
    bool used = false;
  };

  StoredTensor find(const std::string& name);
  StoredTensor required(const std::string& name, const ModelTensor& tensor, std::string_view expected);
  void check(const StoredTensor& stored, Dtype dtype, const Shape& shape) const;
  void check_scalar(const StoredTensor& stored) const;
  StoredMatrix fp8_matrix(const StoredTensor& codes, const ModelTensor& tensor);
  StoredMatrix nvfp4_matrix(const StoredTensor& codes, const ModelTensor& tensor, const std::string& module,
                            bool compressed_tensors);
  [[nodiscard]] std::string why_unknown(const std::string& name) const;

  const ModelConfig& config_;
  std::string listing_;
  std::unordered_map<std::string_view, Slot> slots_;
};

}  // namespace glint
