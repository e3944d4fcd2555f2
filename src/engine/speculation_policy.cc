#include "engine/speculation_policy.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace glint {

namespace {

// Up to here each size has its own entry; larger ones share entries a sixteenth wide, so that two numbers of
// drafts for the same sequences (at least an eighth apart) never do.
constexpr int64_t kExactSizes = 32;
constexpr double kNewest = 0.2;        // weight of a new measurement
constexpr double kMemoryDrafts = 200;  // how many drafts at a place are remembered
// A place where few drafts were seen is taken to be like the place before it.
constexpr double kAcceptanceGuess = 0.6, kGuessWeight = 4;
constexpr double kWorthAChange = 1.02;
constexpr int64_t kTrialInterval = 64, kTrialIntervalMax = 512;  // steps
// A guess until something was drafted: drafting one token is as a few layers of the model.
constexpr double kDraftingGuess = 0.1;

}  // namespace

CostTable::CostTable(int64_t size_max) {
  int64_t size = 1;
  while (true) {
    entries_.push_back({.size = size, .at = size});
    if (size >= size_max) return;
    size = size < kExactSizes ? size + 1 : size + size / 16;
  }
}

void CostTable::measured(int64_t size, double seconds) {
  const auto entry = std::ranges::lower_bound(entries_, size, {}, &Entry::size);
  if (entry == entries_.end()) return;
  if (entry->seconds < 0) {
    entry->seconds = seconds;
    ++measured_;
  } else {
    entry->seconds += kNewest * (seconds - entry->seconds);
  }
  entry->at = size;
}

double CostTable::estimate(int64_t size) const {
  if (empty()) return 0;
  const Entry* below = nullptr;
  const Entry* above = nullptr;
  for (const Entry& entry : entries_) {
    if (entry.seconds < 0) continue;
    if (entry.at <= size) below = &entry;
    if (entry.at >= size && above == nullptr) above = &entry;
  }
  const auto at = static_cast<double>(size);
  if (below == nullptr) return above->seconds * std::sqrt(at / static_cast<double>(above->at));
  const auto low = static_cast<double>(below->at);
  if (above == nullptr) return below->seconds * at / low;
  if (above == below) return below->seconds;
  const auto high = static_cast<double>(above->at);
  return below->seconds + (above->seconds - below->seconds) * (at - low) / (high - low);
}

SpeculationPolicy::SpeculationPolicy(int64_t tokens_max, int64_t sequences_max)
    : tokens_max_(tokens_max),
      execute_(sequences_max * (tokens_max + 1)),
      drafting_(static_cast<size_t>(tokens_max), CostTable(sequences_max)),
      current_(std::min<int64_t>(2, tokens_max)),
      until_trial_(kTrialInterval),
      trial_interval_(kTrialInterval) {
  GLINT_CHECK(tokens_max >= 1 && tokens_max <= kSpeculativeTokensMax && sequences_max >= 1);
}

void SpeculationPolicy::drafted(int64_t sequences, int64_t tokens, double seconds) {
  if (sequences > 0 && tokens > 0) drafting_[static_cast<size_t>(tokens - 1)].measured(sequences, seconds);
}

void SpeculationPolicy::verified(int64_t tokens, int64_t accepted) {
  for (int64_t i = 0; i < std::min(tokens, accepted + 1); ++i) {
    Acceptance& place = acceptance_[static_cast<size_t>(i)];
    const double kept = 1 - 1 / kMemoryDrafts;
    place.tried = place.tried * kept + 1;
    place.confirmed = place.confirmed * kept + (i < accepted ? 1 : 0);
  }
}

double SpeculationPolicy::drafting_seconds(int64_t sequences, int64_t tokens) const {
  if (tokens == 0) return 0;
  // The measurements of the nearest number of drafts, in proportion.
  for (int64_t gap = 0; gap < tokens_max_; ++gap) {
    for (const int64_t near : {tokens - gap, tokens + gap}) {
      if (near < 1 || near > tokens_max_ || drafting_[static_cast<size_t>(near - 1)].empty()) continue;
      return drafting_[static_cast<size_t>(near - 1)].estimate(sequences) * static_cast<double>(tokens) /
             static_cast<double>(near);
    }
  }
  return kDraftingGuess * static_cast<double>(tokens) * execute_.estimate(sequences);
}

double SpeculationPolicy::expected_rate(int64_t sequences, int64_t tokens) const {
  const double seconds = execute_.estimate(sequences * (tokens + 1)) + drafting_seconds(sequences, tokens);
  if (seconds <= 0) return 0;
  double gained = 1;
  double reached = 1;
  double share = kAcceptanceGuess;
  for (int64_t i = 0; i < tokens; ++i) {
    const Acceptance& place = acceptance_[static_cast<size_t>(i)];
    share = (place.confirmed + kGuessWeight * share) / (place.tried + kGuessWeight);
    reached *= share;
    gained += reached;
  }
  return gained / seconds;
}

int64_t SpeculationPolicy::best(int64_t sequences) const {
  int64_t best = current_;
  double wanted = expected_rate(sequences, current_) * kWorthAChange;
  for (int64_t tokens = 0; tokens <= tokens_max_; ++tokens) {
    const double rate = expected_rate(sequences, tokens);
    if (tokens == current_ || rate <= wanted) continue;
    best = tokens;
    wanted = rate;
  }
  return best;
}

int64_t SpeculationPolicy::neighbour() {
  trial_above_ = !trial_above_;
  const int64_t wanted = current_ + (trial_above_ ? 1 : -1);
  return wanted < 0 || wanted > tokens_max_ ? current_ + (trial_above_ ? -1 : 1) : wanted;
}

int64_t SpeculationPolicy::choose(int64_t sequences) {
  if (sequences <= 0) return current_;
  const int64_t chosen = best(sequences);
  if (chosen != current_) {
    current_ = chosen;
    trial_interval_ = kTrialInterval;
    until_trial_ = std::min(until_trial_, trial_interval_);
    return current_;
  }
  if (--until_trial_ > 0) return current_;
  until_trial_ = trial_interval_;
  trial_interval_ = std::min(2 * trial_interval_, kTrialIntervalMax);
  return neighbour();
}

}  // namespace glint
