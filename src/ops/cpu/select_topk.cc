#include "ops/cpu/select_topk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

namespace glint::ops::cpu {

namespace {

// An unsigned key in the order of the scores.
uint32_t key_of(float score) {
  if (std::isnan(score)) return 0;
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);  // + 0 turns -0 into +0
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

struct Digit {
  int shift;
  int bits;
};
constexpr Digit kDigits[] = {{21, 11}, {10, 11}, {0, 10}};

}  // namespace

int64_t select_topk(const float* scores, int64_t n, int64_t k, int32_t* list) {
  if (n <= k) {
    std::iota(list, list + n, 0);
    return n;
  }
  // Radix selection: the key of the k-th largest score, digit by digit from the top.
  uint32_t prefix = 0;
  uint32_t mask = 0;
  int64_t wanted = k;  // how many of the keys that match the prefix belong to the k largest
  for (const Digit digit : kDigits) {
    std::array<int32_t, 2048> histogram{};
    const uint32_t digit_mask = (1U << digit.bits) - 1;
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t key = key_of(scores[i]);
      if ((key & mask) == prefix) ++histogram[(key >> digit.shift) & digit_mask];
    }
    uint32_t value = digit_mask;
    while (histogram[value] < wanted) wanted -= histogram[value--];
    prefix |= value << digit.shift;
    mask |= digit_mask << digit.shift;
  }
  int64_t count = 0;
  for (int64_t i = 0; i < n && count < k; ++i) {
    const uint32_t key = key_of(scores[i]);
    if (key > prefix || (key == prefix && wanted-- > 0)) list[count++] = static_cast<int32_t>(i);
  }
  return count;
}

}  // namespace glint::ops::cpu
