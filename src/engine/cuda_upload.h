// Brings bytes to a CUDA device: those of a checkpoint's files are read, not mapped, so they pass through the
// host's memory once and a read that fails is an error with the file's name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace glint {

/// Host bytes, and where on the device they go.
struct UploadRange {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t bytes = 0;
};

/// Brings all ranges to the current device, several threads with pinned buffers; what views of `files` stand
/// for is read from disk or from the page cache, all else is copied. `files` may be null.
/// `progress(done_bytes, total_bytes)` is called on this thread now and then and may return false to stop
/// (throws io). Waits until all has arrived.
void upload(const std::vector<UploadRange>& ranges, const Checkpoint* files,
            const std::function<bool(int64_t, int64_t)>& progress);

}  // namespace glint
