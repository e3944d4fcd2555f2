// Turns a row of logits into a token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace glint {

/// A uniform number in [0, 1) that depends on (seed, position) alone: what is sampled at a position does not
/// depend on what ran beside it, on how often the request was interrupted, or on how many numbers were drawn
/// before.
double uniform_at(uint64_t seed, int64_t position);

class Sampler {
 public:
  /// `sampleable[id]`: the id stands for a token. Others, such as the padding rows of the vocabulary, are
  /// never taken.
  explicit Sampler(std::vector<bool> sampleable);

  /// The token after a prefix whose next position in the output is `position` (0 for the first generated
  /// token). logits: [sampleable.size()], changed in place. `forbidden` ids are not taken in this call.
  /// temperature 0: the largest logit, the lowest id among equals. Otherwise softmax(logits / temperature),
  /// then, in this order, ids whose probability is below min_p times the largest are left out, then all but
  /// the top_k most likely (lowest id first among equals), then all but the smallest set of most likely ids
  /// whose sum reaches top_p; of what is left one is drawn by uniform_at(seed, position), walking through the
  /// ids in ascending order. Returns -1 if a sampleable logit is NaN or +inf, or if none is above -inf.
  TokenId sample(std::span<float> logits, const SamplingParams& params, uint64_t seed, int64_t position,
                 std::span<const TokenId> forbidden);

 private:
  struct Candidate {
    TokenId id;
    float weight;  // exp(logit / temperature - largest)
  };
  TokenId draw(const std::vector<Candidate>& candidates, double uniform) const;
  void keep_top_k(int32_t top_k);
  void keep_top_p(float top_p);

  std::vector<bool> sampleable_;
  std::vector<TokenId> padding_;
  std::vector<Candidate> candidates_;
};

}  // namespace glint
