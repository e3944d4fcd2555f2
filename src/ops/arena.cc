#include "ops/arena.h"

#include <algorithm>

#include "base/error.h"

namespace glint::ops {

void* Arena::take(int64_t bytes) {
  constexpr int64_t kAlign = 256;
  const int64_t start = used_;
  used_ += (bytes + kAlign - 1) / kAlign * kAlign;
  peak_ = std::max(peak_, used_);
  span_peak_ = std::max(span_peak_, used_);
  if (measuring()) return nullptr;
  if (used_ > bytes_)
    fail(ErrorKind::internal, "step memory: ", used_, " bytes wanted, ", bytes_, " planned");
  return slab_ + start;
}

}  // namespace glint::ops
