// Which token a sequence takes from a row of logits: the sampler with the sequence's own rules.
#pragma once

#include <span>
#include <vector>

#include "engine/sampler.h"
#include "engine/sequence.h"

namespace glint {

class SequenceSampler {
 public:
  /// `sampleable` as for Sampler; `eos` ends sequences that do not ignore it.
  SequenceSampler(std::vector<bool> sampleable, std::vector<TokenId> eos)
      : sampler_(std::move(sampleable)), eos_(std::move(eos)) {}

  /// The token that stands at `position` of the sequence's output (0 for the first generated one), given the
  /// logits of the position before, which are changed in place. A fixed function of the logits, the
  /// sequence's parameters, its seed and the position. Before min_tokens no ending id is taken. -1 as
  /// Sampler::sample.
  TokenId sample(const Sequence& sequence, int64_t position, std::span<float> logits);

  /// True if this token ends the sequence (min_tokens is sample()'s concern).
  [[nodiscard]] bool ends(const Sequence& sequence, TokenId token) const;

 private:
  Sampler sampler_;
  std::vector<TokenId> eos_;
  std::vector<TokenId> forbidden_;
};

}  // namespace glint
