#include "engine/run_ahead.h"

#include <algorithm>

#include "base/error.h"
#include "base/integers.h"
#include "ops/types.h"

namespace glint {

void RoundDescription::clear() {
  sequences = drafts = pages_stride = context_max = 0;
  continues = false;
  for (std::vector<int32_t>* part : {&pages, &tokens, &positions, &generated}) part->clear();
  sampling.clear();
}

void RoundDescription::reserve(size_t sequences_max, size_t drafts_max, size_t page_numbers) {
  pages.reserve(page_numbers);
  tokens.reserve(sequences_max * (1 + drafts_max));
  positions.reserve(sequences_max);
  generated.reserve(sequences_max);
  sampling.reserve(sequences_max);
}

namespace {

/// Tokens from a sequence's length on that a round of `drafts` drafts may reach: after a gain of 1 + drafts
/// its drafting stands at most so far.
int64_t reach_of_round(int64_t drafts) {
  return 2 * drafts + 1;
}
/// The same for the round that follows one which the length does not count yet.
int64_t reach_of_next(int64_t drafts) {
  return reach_of_round(drafts) + 1 + drafts;
}

bool samples_alone(const ScheduledRows& part) {
  return part.decodes && part.samples && part.sequence->rules.idle() && !part.sequence->sampling.logprobs;
}

}  // namespace

RunAhead::RunAhead(RoundRunner* rounds, Scheduler& scheduler, int64_t drafts_max)
    : rounds_(rounds), scheduler_(scheduler), drafts_max_(drafts_max) {}

void RunAhead::reserve(size_t sequences, size_t page_numbers) {
  if (rounds_ == nullptr) return;
  description_.reserve(sequences, static_cast<size_t>(drafts_max_), page_numbers);
  slots_.reserve(sequences);
  slot_of_.reserve(sequences);
}

int64_t RunAhead::reach(const std::vector<ScheduledRows>& rows, int64_t tokens) const {
  int64_t longest = 0;
  for (const ScheduledRows& part : rows) longest = std::max(longest, part.sequence->length());
  return longest + tokens;
}

bool RunAhead::takes(const std::vector<ScheduledRows>& rows, int64_t drafts) {
  if (rounds_ == nullptr || rows.empty()) return false;
  if (!rounds_->takes(static_cast<int64_t>(rows.size()), drafts)) return false;
  const bool alone = std::ranges::all_of(rows, [&](const ScheduledRows& part) {
    return samples_alone(part) && static_cast<int64_t>(part.sequence->drafts.size()) <= drafts;
  });
  return alone && reach(rows, reach_of_round(drafts)) <= rounds_->context_limit() &&
         scheduler_.hold_pages(reach_of_round(drafts));
}

void RunAhead::describe_pages(const std::vector<ScheduledRows>& rows, int64_t tokens) {
  description_.context_max = reach(rows, tokens);
  description_.pages_stride = ceil_div(description_.context_max, ops::kPageTokens);
  for (const ScheduledRows& part : rows) {
    const std::vector<int32_t>& pages = part.sequence->pages;
    const auto count = std::min(pages.size(), static_cast<size_t>(description_.pages_stride));
    const size_t end = description_.pages.size() + static_cast<size_t>(description_.pages_stride);
    description_.pages.insert(description_.pages.end(), pages.begin(),
                              pages.begin() + static_cast<std::ptrdiff_t>(count));
    description_.pages.resize(end, -1);
  }
}

void RunAhead::begin(const std::vector<ScheduledRows>& rows, int64_t drafts) {
  description_.clear();
  slots_.clear();
  drafts_ = drafts;
  description_.sequences = static_cast<int64_t>(rows.size());
  description_.drafts = drafts;
  for (const ScheduledRows& part : rows) {
    const Sequence& sequence = *part.sequence;
    const SamplingParams& sampling = sequence.sampling;
    slots_.push_back(sequence.id);
    description_.tokens.push_back(sequence.tokens.back());
    description_.tokens.insert(description_.tokens.end(), sequence.drafts.begin(), sequence.drafts.end());
    description_.tokens.resize(slots_.size() * static_cast<size_t>(1 + drafts), -1);
    description_.positions.push_back(static_cast<int32_t>(sequence.length() - 1));
    description_.generated.push_back(static_cast<int32_t>(sequence.generated()));
    description_.sampling.push_back({.temperature = sampling.temperature,
                                     .top_p = sampling.top_p,
                                     .min_p = sampling.min_p,
                                     .top_k = sampling.top_k,
                                     .seed = sequence.seed});
  }
  describe_pages(rows, reach_of_round(drafts));
  rounds_->start(description_);
  ++started_;
}

void RunAhead::follow(const std::vector<ScheduledRows>& rows) {
  if (rows.size() != slots_.size() || reach(rows, reach_of_next(drafts_)) > rounds_->context_limit() ||
      !scheduler_.hold_pages(reach_of_next(drafts_)))
    return;
  description_.clear();
  description_.sequences = static_cast<int64_t>(rows.size());
  description_.drafts = drafts_;
  description_.continues = true;
  describe_pages(rows, reach_of_next(drafts_));
  rounds_->start(description_);
  ++started_;
}

void RunAhead::run(const std::vector<ScheduledRows>& rows, int64_t drafts, bool ahead) {
  if (started_ == 0) begin(rows, drafts);
  slot_of_.clear();
  for (const ScheduledRows& part : rows) {
    const auto slot = std::ranges::find(slots_, part.sequence->id);
    GLINT_CHECK(slot != slots_.end());
    slot_of_.push_back(static_cast<size_t>(slot - slots_.begin()));
  }
  if (ahead) follow(rows);
  result_ = rounds_->finish();
  --started_;
}

std::span<const int32_t> RunAhead::tokens(size_t i) const {
  const size_t slot = slot_of_[i];
  return result_.tokens.subspan(slot * static_cast<size_t>(1 + drafts_),
                                static_cast<size_t>(result_.taken[slot]));
}

int32_t RunAhead::draft(size_t i, int64_t n) const {
  return result_.drafts[static_cast<size_t>(n) * slots_.size() + slot_of_[i]];
}

}  // namespace glint
