// The expert load of a CUDA device: the routing kernel counts, and whoever asks copies the counts to the
// host.
#pragma once

#include <mutex>

#include "engine/cuda_device.h"
#include "engine/expert_load.h"

namespace glint {

class CudaExpertLoad final : public ExpertLoad {
 public:
  /// Steps of `device` are counted from now on, those of the MTP layer excepted (as on the CPU). Must outlive
  /// the device's last step.
  explicit CudaExpertLoad(CudaDevice& device);

  /// A step of so many rows has been enqueued on the device's stream.
  void step_enqueued(int64_t rows);
  /// Forgets what was counted by all that has been enqueued.
  void clear();
  /// Waits for a copy on a stream of its own, not for the steps that run. Empty if the device has failed. Any
  /// thread.
  [[nodiscard]] std::vector<double> busiest_over_mean() const override;

 private:
  [[nodiscard]] uint32_t* counts() const { return reinterpret_cast<uint32_t*>(counts_.data()); }

  CudaDevice& device_;
  int64_t layers_, experts_, chosen_;
  DeviceBytes counts_;  // [layers][experts]
  ExpertFading fading_;
  DeviceStream reading_;
  PinnedBytes read_;
  mutable std::mutex mutex_;  // of the two above
};

}  // namespace glint
