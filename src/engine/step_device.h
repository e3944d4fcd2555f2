// A device as traces and executors see it: a model bound to it, memory for a step's temporaries, a cache, and
// a way to bring a described step to it.
#pragma once

#include <memory>

#include "engine/device_options.h"
#include "engine/executor.h"
#include "model/model.h"

namespace glint {

class StepDevice {
 public:
  virtual ~StepDevice() = default;
  [[nodiscard]] virtual const DeviceOptions& options() const = 0;
  /// With weights where the device's operations find them.
  [[nodiscard]] virtual const Model& model() const = 0;
  [[nodiscard]] virtual ops::Ops& ops() = 0;
  [[nodiscard]] virtual ops::Arena& arena() = 0;
  [[nodiscard]] virtual const ModelCaches& caches() const = 0;

  /// The step as the model takes it, valid until the next call; `description` must live as long. Positions
  /// may be stated for a longer context than the description's, which changes no result.
  virtual Step place(const StepDescription& description) = 0;
};

}  // namespace glint
