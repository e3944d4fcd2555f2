// The exact choice of the k largest of n scores.
#pragma once

#include <cstdint>

namespace glint::ops::cpu {

/// Writes the indices of the min(k, n) largest scores to `list` in ascending order and returns how many.
/// Among equal scores the lowest indices win; -0 equals +0; NaN counts as the smallest. `scores` may be null
/// if n <= k. Time is linear in n.
int64_t select_topk(const float* scores, int64_t n, int64_t k, int32_t* list);

}  // namespace glint::ops::cpu
