#include "engine/expert_load.h"

#include <algorithm>

namespace glint {

namespace {

constexpr int64_t kMeanBeforeHalving = 512;
constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

double busiest_over_mean(std::span<const uint32_t> counts) {
  uint64_t total = 0;
  uint32_t busiest = 0;
  for (const uint32_t count : counts) {
    total += count;
    busiest = std::max(busiest, count);
  }
  if (total == 0) return 0;
  return static_cast<double>(busiest) * static_cast<double>(counts.size()) / static_cast<double>(total);
}

bool ExpertFading::add(int64_t choices) {
  total_ += choices;
  if (total_ < kMeanBeforeHalving * experts_) return false;
  total_ /= 2;
  return true;
}

HostExpertLoad::HostExpertLoad(int64_t layers, int64_t experts)
    : layers_(layers),
      experts_(experts),
      counts_(new Count[static_cast<size_t>(layers * experts)]()),
      fading_(static_cast<size_t>(layers), ExpertFading(experts)) {}

void HostExpertLoad::experts_chosen(int64_t layer, ops::Ops& /*ops*/, ops::Ints chosen) {
  if (layer < 0 || layer >= layers_) return;
  Count* const counts = counts_.get() + layer * experts_;
  const int64_t choices = chosen.rows * chosen.cols;
  for (int64_t i = 0; i < choices; ++i) {
    Count& count = counts[chosen.data[i]];
    count.store(count.load(kRelaxed) + 1, kRelaxed);
  }
  if (!fading_[static_cast<size_t>(layer)].add(choices)) return;
  for (int64_t i = 0; i < experts_; ++i) counts[i].store(counts[i].load(kRelaxed) / 2, kRelaxed);
}

std::vector<double> HostExpertLoad::busiest_over_mean() const {
  std::vector<double> figures;
  std::vector<uint32_t> counts(static_cast<size_t>(experts_));
  for (int64_t layer = 0; layer < layers_; ++layer) {
    for (int64_t i = 0; i < experts_; ++i)
      counts[static_cast<size_t>(i)] = counts_[static_cast<size_t>(layer * experts_ + i)].load(kRelaxed);
    figures.push_back(glint::busiest_over_mean(counts));
  }
  return figures;
}

}  // namespace glint
