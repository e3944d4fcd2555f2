#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace glint {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
/// A smaller weight beside the largest, which is 1, could not be felt in a sum.
constexpr float kLeastWeight = 1e-30F;

uint64_t mix(uint64_t z) {  // the splitmix64 finaliser
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

bool more_likely(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

bool more_probable(const TokenLogprob& a, const TokenLogprob& b) {
  return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
}

double shares_of(const Candidate* begin, const Candidate* end) {
  double sum = 0;
  for (; begin != end; ++begin) sum += share_of(begin->weight);
  return sum;
}

float value_of(const ScannedRow& row, float logit, bool plain) {
  if (plain) return logit;
  return static_cast<float>(static_cast<double>(logit) - static_cast<double>(row.largest) - row.log_sum);
}

}  // namespace

uint64_t draw_key(uint64_t seed, int64_t position) {
  const uint64_t key = mix(seed + 0x9E3779B97F4A7C15ULL);
  return mix(key + (static_cast<uint64_t>(position) + 1) * 0x9E3779B97F4A7C15ULL);
}

Sampler::Sampler(std::vector<bool> sampleable, Isa isa)
    : scans_(row_scans(isa)), size_(static_cast<int64_t>(sampleable.size())) {
  GLINT_CHECK(size_ <= int64_t{1} << 19);  // share_of()
  for (size_t id = 0; id < sampleable.size(); ++id) {
    if (!sampleable[id]) padding_.push_back(static_cast<TokenId>(id));
  }
  weights_.resize(sampleable.size());
  candidates_.resize(sampleable.size());
}

bool Sampler::scan(std::span<float> logits, ScannedRow& row) {
  GLINT_CHECK(static_cast<int64_t>(logits.size()) == size_);
  for (const TokenId id : padding_) logits[static_cast<size_t>(id)] = kNever;
  row.logits = logits;
  row.peaks.resize(static_cast<size_t>(row_blocks(size_)));
  if (!scans_.peaks(logits.data(), size_, row.peaks.data())) return false;
  row.largest = *std::max_element(row.peaks.begin(), row.peaks.end());
  return row.largest != kNever && row.largest < std::numeric_limits<float>::infinity();
}

TokenId Sampler::best(const ScannedRow& row) {
  const auto block = std::find(row.peaks.begin(), row.peaks.end(), row.largest) - row.peaks.begin();
  const auto begin = row.logits.begin() + block * kRowBlock;
  return static_cast<TokenId>(std::find(begin, row.logits.end(), row.largest) - row.logits.begin());
}

TokenId Sampler::take(const ScannedRow& row, const SamplingParams& params, uint64_t key) {
  const TokenId first = best(row);
  if (params.temperature == 0.0F) return first;
  cut_ = {};
  gathered_ = false;
  // Different logits may have equal weights: where one id is left it is the one that greedy takes.
  only_ = params.top_k == 1 ? first : -1;
  scans_.weights(row.logits.data(), size_, row.largest, params.temperature,
                 std::max(params.min_p, kLeastWeight), weights_.data());
  if (params.top_k > 1) cut_top_k(params.top_k);
  if (params.top_p < 1.0F && only_ < 0 && cut_top_p(params.top_p) == 1) only_ = first;
  if (only_ >= 0) return only_;
  RaceState state{first, race_time(key, first, weights_[static_cast<size_t>(first)])};
  scans_.race(weights_.data(), size_, key, cut_, state);
  return state.id;
}

/// The candidates become all ids of a weight of at least `least`, and whatever is left if there are no such.
int64_t Sampler::gather(float least) {
  count_ = scans_.gather(weights_.data(), size_, std::max(least, kLeastWeight), candidates_.data());
  return count_;
}

void Sampler::cut_top_k(int32_t top_k) {
  // Mostly a few ids hold nearly all of the weight.
  for (const float least : {0x1p-4F, 0x1p-10F, 0x1p-20F, 0.0F}) {
    if (gather(least) >= top_k) break;
  }
  gathered_ = true;
  if (count_ < top_k) return;  // all there are
  const auto end = candidates_.begin() + top_k;
  std::nth_element(candidates_.begin(), end - 1, candidates_.begin() + count_, more_likely);
  count_ = top_k;
  cut_ = {.least_weight = (end - 1)->weight, .least_id = (end - 1)->id};
}

/// Returns how many ids it leaves.
int64_t Sampler::cut_top_p(float top_p) {
  const double total = gathered_ ? shares_of(candidates_.data(), candidates_.data() + count_)
                                 : scans_.shares(weights_.data(), size_);
  const double wanted = total * static_cast<double>(top_p);
  if (!gathered_) {
    for (const float least : {0x1p-4F, 0x1p-10F, 0x1p-20F, 0.0F}) {
      gather(least);
      if (shares_of(candidates_.data(), candidates_.data() + count_) >= wanted) break;
    }
  }
  // Halves the range that holds the last id of the set until it is one id.
  Candidate* low = candidates_.data();
  Candidate* high = low + count_;
  double sum = 0;
  while (high - low > 1) {
    Candidate* const middle = low + (high - low) / 2;
    std::nth_element(low, middle, high, more_likely);
    const double half = shares_of(low, middle);
    if (sum + half >= wanted) {
      high = middle;
    } else {
      sum += half;
      low = middle;
    }
  }
  cut_ = {.least_weight = low->weight, .least_id = low->id};
  return low - candidates_.data() + 1;
}

void Sampler::write_drawn_from(ScannedRow& row, const SamplingParams& params) {
  if (params.temperature == 0.0F) return;
  for (size_t id = 0; id < row.logits.size(); ++id) {
    const float weight = weights_[id];
    const auto token = static_cast<TokenId>(id);
    const bool inside =
        weight > cut_.least_weight || (weight == cut_.least_weight && weight > 0 && token <= cut_.least_id);
    const bool kept = only_ >= 0 ? token == only_ : inside;
    row.logits[id] = kept ? row.logits[id] / params.temperature : kNever;
  }
}

void Sampler::sum_up(ScannedRow& row) {
  row.log_sum =
      std::log(scans_.weights(row.logits.data(), size_, row.largest, 1.0F, kLeastWeight, weights_.data()));
}

void Sampler::report(const ScannedRow& row, TokenId token, int32_t top, bool plain, Logprobs& out) {
  const int64_t most = size_ - static_cast<int64_t>(padding_.size());
  out.top = top == kAllLogprobs ? most : std::min<int64_t>(top, most);
  append_chosen(row, token, plain, out);
  if (out.top > 0) append_best(row, out.top, plain, out);
}

void Sampler::report(const ScannedRow& row, TokenId token, const std::vector<TokenId>& ids, bool plain,
                     Logprobs& out) {
  out.top = static_cast<int64_t>(ids.size());
  append_chosen(row, token, plain, out);
  for (const TokenId id : ids)
    out.alternatives.push_back({id, value_of(row, row.logits[static_cast<size_t>(id)], plain)});
  std::sort(out.alternatives.end() - static_cast<std::ptrdiff_t>(ids.size()), out.alternatives.end(),
            more_probable);
}

void Sampler::append_chosen(const ScannedRow& row, TokenId token, bool plain, Logprobs& out) const {
  const float logit = row.logits[static_cast<size_t>(token)];
  out.chosen.push_back({token, value_of(row, logit, plain)});
  int64_t rank = 1;
  for (size_t block = 0; block < row.peaks.size(); ++block) {
    if (row.peaks[block] < logit) continue;
    const auto begin = static_cast<int64_t>(block) * kRowBlock;
    const int64_t end = std::min(size_, begin + kRowBlock);
    for (int64_t id = begin; id < end; ++id) {
      const float other = row.logits[static_cast<size_t>(id)];
      rank += static_cast<int64_t>(other > logit) + static_cast<int64_t>(other == logit && id < token);
    }
  }
  out.ranks.push_back(rank);
}

void Sampler::append_best(const ScannedRow& row, int64_t top, bool plain, Logprobs& out) const {
  std::vector<TokenLogprob>& list = out.alternatives;
  const size_t start = list.size();
  // A heap of the best so far, the least of them in front. A later id of an equal logit does not enter.
  const auto begin = [&list, start] { return list.begin() + static_cast<int64_t>(start); };
  const auto wanted = static_cast<size_t>(top);
  auto padding = padding_.begin();
  for (size_t block = 0; block < row.peaks.size(); ++block) {
    const bool full = list.size() - start == wanted;
    if (full && row.peaks[block] <= list[start].logprob) continue;
    const auto first = static_cast<int64_t>(block) * kRowBlock;
    for (int64_t id = first; id < std::min(size_, first + kRowBlock); ++id) {
      const float logit = row.logits[static_cast<size_t>(id)];
      if (list.size() - start == wanted) {
        if (logit <= list[start].logprob) continue;
        std::pop_heap(begin(), list.end(), more_probable);
        list.pop_back();
      } else if (logit == kNever) {
        padding = std::lower_bound(padding, padding_.end(), static_cast<TokenId>(id));
        if (padding != padding_.end() && *padding == id) continue;
      }
      list.push_back({static_cast<TokenId>(id), logit});
      std::push_heap(begin(), list.end(), more_probable);
    }
  }
  std::sort_heap(begin(), list.end(), more_probable);
  for (auto entry = begin(); entry != list.end(); ++entry)
    entry->logprob = value_of(row, entry->logprob, plain);
}

}  // namespace glint
