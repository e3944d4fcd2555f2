// Where stored tensors go as they are computed: the shards of a folder, or memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/safetensors.h"

namespace glint {

/// The place that a sink gave a tensor.
struct TensorPlace {
  size_t shard = 0;  // the part of the sink, and the number within it
  size_t tensor = 0;
};

class TensorSink {
 public:
  virtual ~TensorSink() = default;

  /// Appends a tensor. All are added, in file order, before the first write.
  virtual TensorPlace add(TensorSpec tensor) = 0;

  /// Writes bytes of a tensor, each of its bytes once. Any thread. Throws io.
  virtual void write(TensorPlace place, int64_t offset, std::span<const std::byte> bytes) = 0;
};

}  // namespace glint
