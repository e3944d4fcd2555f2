#include "engine/expert_load.h"

#include <algorithm>

namespace glint {

namespace {

constexpr int64_t kMeanBeforeHalving = 512;
constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

ExpertLoad::ExpertLoad(int64_t layers, int64_t experts)
    : layers_(layers),
      experts_(experts),
      counts_(new Count[static_cast<size_t>(layers * experts)]()),
      totals_(static_cast<size_t>(layers)) {}

void ExpertLoad::experts_chosen(int64_t layer, ops::Ops& /*ops*/, ops::Ints chosen) {
  if (layer < 0 || layer >= layers_) return;
  Count* const counts = this->counts(layer);
  const int64_t choices = chosen.rows * chosen.cols;
  for (int64_t i = 0; i < choices; ++i) {
    Count& count = counts[chosen.data[i]];
    count.store(count.load(kRelaxed) + 1, kRelaxed);
  }
  int64_t& total = totals_[static_cast<size_t>(layer)];
  total += choices;
  if (total < kMeanBeforeHalving * experts_) return;
  for (int64_t i = 0; i < experts_; ++i) counts[i].store(counts[i].load(kRelaxed) / 2, kRelaxed);
  total /= 2;
}

double ExpertLoad::busiest_over_mean(int64_t layer) const {
  uint64_t total = 0;
  uint32_t busiest = 0;
  for (int64_t i = 0; i < experts_; ++i) {
    const uint32_t count = counts(layer)[i].load(kRelaxed);
    total += count;
    busiest = std::max(busiest, count);
  }
  if (total == 0) return 0;
  return static_cast<double>(busiest) * static_cast<double>(experts_) / static_cast<double>(total);
}

}  // namespace glint
