#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace glint {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

uint64_t mix(uint64_t z) {  // the splitmix64 finaliser
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// The largest logit, NaN if there is a NaN. Several lanes, so that the compiler can use vectors: a
/// vocabulary is long.
float largest_of(std::span<const float> logits) {
  constexpr size_t kLanes = 16;
  float top[kLanes];
  float nan_seen[kLanes] = {};
  std::fill_n(top, kLanes, kNever);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float value = logits[i + lane];
      top[lane] = value > top[lane] ? value : top[lane];
      nan_seen[lane] = value == value ? nan_seen[lane] : value;
    }
  }
  for (; i < logits.size(); ++i) {
    top[0] = logits[i] > top[0] ? logits[i] : top[0];
    if (std::isnan(logits[i])) nan_seen[0] = logits[i];
  }
  for (const float value : nan_seen) {
    if (std::isnan(value)) return value;
  }
  return *std::max_element(top, top + kLanes);
}

bool more_likely(float a, TokenId a_id, float b, TokenId b_id) {
  return a != b ? a > b : a_id < b_id;
}

}  // namespace

double uniform_at(uint64_t seed, int64_t position) {
  const uint64_t key = mix(seed + 0x9E3779B97F4A7C15ULL);
  const uint64_t value = mix(key + (static_cast<uint64_t>(position) + 1) * 0x9E3779B97F4A7C15ULL);
  return static_cast<double>(value >> 11) * 0x1p-53;
}

Sampler::Sampler(std::vector<bool> sampleable) : sampleable_(std::move(sampleable)) {
  for (size_t id = 0; id < sampleable_.size(); ++id) {
    if (!sampleable_[id]) padding_.push_back(static_cast<TokenId>(id));
  }
  candidates_.reserve(sampleable_.size());
}

TokenId Sampler::sample(std::span<float> logits, const SamplingParams& params, uint64_t seed,
                        int64_t position, std::span<const TokenId> forbidden) {
  GLINT_CHECK(logits.size() == sampleable_.size());
  for (const TokenId id : padding_) logits[static_cast<size_t>(id)] = kNever;
  for (const TokenId id : forbidden) logits[static_cast<size_t>(id)] = kNever;
  const float largest = largest_of(logits);
  if (!(largest < std::numeric_limits<float>::infinity()) || largest == kNever) return -1;
  if (params.temperature == 0.0F) {
    return static_cast<TokenId>(std::find(logits.begin(), logits.end(), largest) - logits.begin());
  }

  // A weight below min_p times the largest (which is 1) is out; so is what a float32 sum could not feel.
  candidates_.clear();
  const float floor = std::max(params.min_p, 1e-30F);
  for (size_t id = 0; id < logits.size(); ++id) {
    const float weight = std::exp((logits[id] - largest) / params.temperature);
    if (weight >= floor) candidates_.push_back({static_cast<TokenId>(id), weight});
  }
  if (params.top_k > 0) keep_top_k(params.top_k);
  if (params.top_p < 1.0F) keep_top_p(params.top_p);
  return draw(candidates_, uniform_at(seed, position));
}

void Sampler::keep_top_k(int32_t top_k) {
  const auto count = static_cast<size_t>(top_k);
  if (candidates_.size() <= count) return;
  std::nth_element(
      candidates_.begin(), candidates_.begin() + top_k, candidates_.end(),
      [](const Candidate& a, const Candidate& b) { return more_likely(a.weight, a.id, b.weight, b.id); });
  candidates_.resize(count);
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
}

void Sampler::keep_top_p(float top_p) {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += static_cast<double>(candidate.weight);
  const double wanted = total * static_cast<double>(top_p);
  const auto order = [](const Candidate& a, const Candidate& b) {
    return more_likely(a.weight, a.id, b.weight, b.id);
  };
  // Sort only as much of the head as is needed: it is usually short.
  size_t sorted = 0;
  size_t kept = 0;
  double sum = 0;
  while (kept < candidates_.size() && sum < wanted) {
    if (kept == sorted) {
      const size_t next = std::min(candidates_.size(), std::max<size_t>(64, sorted * 4));
      std::partial_sort(candidates_.begin() + static_cast<int64_t>(sorted),
                        candidates_.begin() + static_cast<int64_t>(next), candidates_.end(), order);
      sorted = next;
    }
    sum += static_cast<double>(candidates_[kept++].weight);
  }
  candidates_.resize(std::max<size_t>(1, kept));
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
}

TokenId Sampler::draw(const std::vector<Candidate>& candidates, double uniform) const {
  double total = 0;
  for (const Candidate& candidate : candidates) total += static_cast<double>(candidate.weight);
  const double target = uniform * total;
  double sum = 0;
  for (const Candidate& candidate : candidates) {
    sum += static_cast<double>(candidate.weight);
    if (sum > target) return candidate.id;
  }
  return candidates.back().id;
}

}  // namespace glint
