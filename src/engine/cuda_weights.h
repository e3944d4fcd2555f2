// A model's weights in the memory of a CUDA device.
#pragma once

#include <functional>
#include <memory>

#include "engine/cuda_memory.h"
#include "model/model.h"
#include "ops/cuda/cuda_ops.h"

namespace glint {

/// What CudaWeights takes of a device for these weights (sizes alone count), beside what it gives back when
/// all is there.
int64_t device_weight_bytes(ModelWeights weights, ops::ComputeDType dtype);

class CudaWeights {
 public:
  /// Copies every weight to the current device, or makes it there if the checkpoint computes its weights (and
  /// then reads none of the host's views): matrices as they are stored, kv_b_proj as absorbed_layout() makes
  /// it for `dtype`, vectors as float32. The checkpoint's files are read once and need not be in the page
  /// cache. `progress(done_bytes, total_bytes)` may return false to stop (throws io). Waits until all has
  /// arrived. Meanwhile kv_b_proj of all layers takes device memory as it is stored, too.
  CudaWeights(const Model& host, ops::ComputeDType dtype,
              const std::function<bool(int64_t, int64_t)>& progress = nullptr);

  /// The model with weights where the device finds them.
  [[nodiscard]] const std::shared_ptr<const Model>& model() const { return model_; }
  [[nodiscard]] const ops::cuda::ExpertTables& tables() const { return tables_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<DeviceBytes> slab_;
  int64_t bytes_ = 0;
  std::shared_ptr<const Model> model_;
  ops::cuda::ExpertTables tables_;
};

}  // namespace glint
