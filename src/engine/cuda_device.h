// A CUDA device, ready to execute described steps: weights, step memory, cache, and the place where a step's
// numbers arrive. Everything is allocated when it is made.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "cache/paged_cache.h"
#include "engine/cuda_memory.h"
#include "engine/cuda_weights.h"
#include "engine/device_memory.h"
#include "engine/step_device.h"
#include "ops/cuda/cuda_ops.h"

namespace glint {

/// Makes device `ordinal` the calling thread's and returns what it is. Throws unsupported, in one line, if
/// there is no driver, no such device, or one that this program has no code for.
DeviceMemory choose_cuda_device(int ordinal);

/// The cache's pages on the device. Copies wait for their end; any thread may make them.
class CudaCache final : public PageMemory {
 public:
  CudaCache(const ModelConfig& config, KvCacheDType dtype, int64_t pages);
  [[nodiscard]] const ModelCaches& views() const { return views_; }
  [[nodiscard]] int64_t page_bytes() const override { return layout_.page_bytes; }
  void copy_out(int32_t page, std::byte* out) const override;
  void copy_in(int32_t page, const std::byte* bytes) override;

 private:
  CacheLayout layout_;
  int device_ = 0;
  DeviceBytes slab_;
  DeviceStream stream_;
  mutable std::mutex mutex_;
  ModelCaches views_;
};

class CudaDevice final : public StepDevice {
 public:
  /// On the calling thread's device. `weights` are of `options.dtype`.
  CudaDevice(std::shared_ptr<const CudaWeights> weights, const DeviceOptions& options,
             const ops::cuda::CudaOptions& cuda_options);

  [[nodiscard]] const DeviceOptions& options() const override { return options_; }
  [[nodiscard]] const Model& model() const override { return *weights_->model(); }
  [[nodiscard]] ops::Ops& ops() override { return *ops_; }
  [[nodiscard]] ops::Arena& arena() override { return arena_; }
  [[nodiscard]] const ModelCaches& caches() const override { return cache_.views(); }
  /// The context is rounded up so that steps of like shapes have like launches.
  Step place(const StepDescription& description) override;

  /// The shape that a step is filled up to, so that few shapes come at all.
  struct Shape {
    int64_t rows = 0;     // also those whose logits are computed
    int64_t context = 0;  // as RowMap's context_max
  };
  /// As place(), for a step that wants the logits of every row: filled up to shape.rows with copies of its
  /// last row, which write the same bytes to the same places and change no other row.
  Step place(const StepDescription& description, const Shape& shape);
  /// The longest context that a step may have, in whole pages.
  [[nodiscard]] int64_t context_limit() const;

  /// Copies `rows` to the device, behind what place() copied.
  const int32_t* place_source(const std::vector<int32_t>& rows);

  /// From now on steps count what the routers choose, by the bias of a layer's router (CudaExpertLoad).
  void count_choices(std::unordered_map<const float*, uint32_t*> counts);
  /// Of what is enqueued from now on the first *rows rows count, an address on the device; null: those that
  /// place() was given.
  void count_rows(const int32_t* rows);

  [[nodiscard]] CudaCache& cache() { return cache_; }
  [[nodiscard]] const DeviceStream& stream() const { return stream_; }
  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] int64_t step_bytes() const { return step_bytes_; }

 private:
  [[nodiscard]] int64_t rounded_context(int64_t context) const;
  Step place(const StepDescription& description, int64_t rows, int64_t logits, int64_t context);

  std::shared_ptr<const CudaWeights> weights_;
  DeviceOptions options_;
  ops::cuda::CountedRouters counted_;
  ops::cuda::CudaOptions cuda_options_;
  int ordinal_ = 0;
  DeviceStream stream_;
  int64_t step_bytes_;
  DeviceBytes slab_;
  ops::Arena arena_;
  CudaCache cache_;
  std::unique_ptr<ops::Ops> ops_;
  int64_t page_numbers_max_;
  PinnedBytes host_step_;
  DeviceBytes device_step_;
};

}  // namespace glint
