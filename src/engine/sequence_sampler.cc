#include "engine/sequence_sampler.h"

#include <algorithm>
#include <limits>

namespace glint {

namespace {

/// Each lane has scratch memory of a few rows.
constexpr int kLanesMax = 16;
/// Handing work to other threads takes as long as looking at so many logits.
constexpr int64_t kLogitsWorthThreads = 1 << 16;

}  // namespace

SequenceSampler::SequenceSampler(SequenceSamplerOptions options)
    : eos_(std::move(options.eos)), mode_(options.logprobs_mode), threads_(options.threads) {
  const int lanes = threads_ == nullptr ? 1 : std::min(threads_->size(), kLanesMax);
  for (int i = 0; i < lanes; ++i) {
    lanes_.push_back(std::make_unique<Lane>(Lane{Sampler(options.sampleable, options.isa), {}, {}, {}}));
    lanes_.back()->copy.resize(options.sampleable.size());
    for (ScannedRow* row : {&lanes_.back()->row, &lanes_.back()->ruled})
      row->peaks.resize(static_cast<size_t>(row_blocks(static_cast<int64_t>(options.sampleable.size()))));
  }
}

int64_t SequenceSampler::worth_lanes(int64_t items) const {
  const auto row = static_cast<int64_t>(lanes_.front()->copy.size());
  return items * row < kLogitsWorthThreads ? 1 : static_cast<int64_t>(lanes_.size());
}

bool SequenceSampler::plain() const {
  return mode_ == LogprobsMode::raw_logits || mode_ == LogprobsMode::processed_logits;
}

bool SequenceSampler::raw() const {
  return mode_ == LogprobsMode::raw_logits || mode_ == LogprobsMode::raw_logprobs;
}

TokenId SequenceSampler::sample(const Sequence& sequence, int64_t position, std::span<float> logits,
                                Logprobs* logprobs, int lane) {
  Lane& own = *lanes_[static_cast<size_t>(lane)];
  const SamplingParams& sampling = sequence.sampling;
  if (!own.sampler.scan(logits, own.row)) return -1;
  const bool report = logprobs != nullptr && sampling.logprobs.has_value();
  if (report && raw() && !plain()) own.sampler.sum_up(own.row);
  ScannedRow* row = &own.row;
  const auto forced = sequence.rules.forced();
  if (forced || sequence.rules.active()) {
    row = &own.ruled;
    std::span<float> ruled = logits;
    if (report && raw()) {  // the row itself is still needed
      std::copy(logits.begin(), logits.end(), own.copy.begin());
      ruled = own.copy;
    }
    if (forced) {
      std::fill(ruled.begin(), ruled.end(), -std::numeric_limits<float>::infinity());
      ruled[static_cast<size_t>(*forced)] = 0;
    } else {
      sequence.rules.apply(ruled);
    }
    if (!own.sampler.scan(ruled, *row)) return kNothingLeft;
  }
  const TokenId token = own.sampler.take(*row, sampling, draw_key(sequence.seed, position));
  if (!report) return token;
  if (!raw()) {
    own.sampler.write_drawn_from(*row, sampling);
    own.sampler.scan(row->logits, *row);
    own.sampler.sum_up(*row);
  }
  const ScannedRow& shown = raw() ? own.row : *row;
  if (!sampling.logprob_token_ids.empty()) {
    own.sampler.report(shown, token, sampling.logprob_token_ids, plain(), *logprobs);
  } else {
    own.sampler.report(shown, token, *sampling.logprobs, plain(), *logprobs);
  }
  return token;
}

bool SequenceSampler::score(const Sequence& sequence, TokenId token, std::span<float> logits,
                            Logprobs& logprobs, int lane) {
  Lane& own = *lanes_[static_cast<size_t>(lane)];
  if (!own.sampler.scan(logits, own.row)) return false;
  if (!plain()) own.sampler.sum_up(own.row);
  own.sampler.report(own.row, token, *sequence.sampling.prompt_logprobs, plain(), logprobs);
  return true;
}

bool SequenceSampler::ends(const Sequence& sequence, TokenId token) const {
  const auto holds = [token](const std::vector<TokenId>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  return holds(sequence.sampling.stop_token_ids) || (!sequence.sampling.ignore_eos && holds(eos_));
}

}  // namespace glint
