#include "engine/sequence_sampler.h"

#include <algorithm>

namespace glint {

TokenId SequenceSampler::sample(const Sequence& sequence, int64_t position, std::span<float> logits) {
  const SamplingParams& sampling = sequence.sampling;
  forbidden_.clear();
  if (position < sampling.min_tokens) {
    forbidden_.assign(sampling.stop_token_ids.begin(), sampling.stop_token_ids.end());
    if (!sampling.ignore_eos) forbidden_.insert(forbidden_.end(), eos_.begin(), eos_.end());
  }
  return sampler_.sample(logits, sampling, sequence.seed, position, forbidden_);
}

bool SequenceSampler::ends(const Sequence& sequence, TokenId token) const {
  const auto holds = [token](const std::vector<TokenId>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  return holds(sequence.sampling.stop_token_ids) || (!sequence.sampling.ignore_eos && holds(eos_));
}

}  // namespace glint
