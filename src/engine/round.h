// A round: one step of sequences that all decode, taken from end to end where the model runs. Its rows are
// placed, the model executed, tokens sampled, drafts verified and the next drafts made without the host; so
// the next round can be started before this one has ended.
//
// A round gives what an execute(), the sampler and a Drafter give: the same tokens and the same drafts,
// where the device's bits do not depend on how many rows a step has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace glint {

/// The fields of SamplingParams that a round follows, and the sequence's seed.
struct RoundSampling {
  float temperature = 0;
  float top_p = 1;
  float min_p = 0;
  int32_t top_k = 0;
  uint64_t seed = 0;
};

struct RoundDescription {
  int64_t sequences = 0;
  int64_t drafts = 0;  // of each sequence, verified and then made anew: each has 1 + drafts rows
  bool continues =
      false;  // with the sequences of the round started before, each from where that one leaves it
  std::vector<int32_t> pages;  // [sequences][pages_stride]
  int64_t pages_stride = 0;
  int64_t context_max = 0;  // no row of the round or of its drafting stands there or beyond
  // Unless it continues:
  std::vector<int32_t>
      tokens;  // [sequences][1 + drafts] the last token, then guesses; -1: none, never confirmed
  std::vector<int32_t> positions;       // [sequences] of the last token
  std::vector<int32_t> generated;       // [sequences] output tokens so far
  std::vector<RoundSampling> sampling;  // [sequences]

  void clear();
  void reserve(size_t sequences, size_t drafts, size_t page_numbers);
};

struct RoundResult {
  std::span<const int32_t> taken;  // [sequences] tokens that the sequence gained, 1 to 1 + drafts
  std::span<const int32_t>
      tokens;  // [sequences][1 + drafts], of which the first `taken`; -1: no usable logits
  std::span<const int32_t> drafts;  // [drafts][sequences] the next guesses; -1: none
  double model_seconds = 0;         // the model and the sampling
  double drafting_seconds = 0;
  double idle_seconds = 0;  // of the device since the round before, if this one continues it
};

class RoundRunner {
 public:
  /// Rounds that may be started and not yet finished.
  static constexpr int64_t kStartedMax = 2;

  virtual ~RoundRunner() = default;
  /// Which ids may be sampled, as for Sampler. Before the first round.
  virtual void set_sampleable(const std::vector<bool>& sampleable) = 0;
  /// Whether rounds of this size run at all.
  [[nodiscard]] virtual bool takes(int64_t sequences, int64_t drafts) const = 0;
  /// Positions that a context may have.
  [[nodiscard]] virtual int64_t context_limit() const = 0;
  /// Between rounds of execute() and draft() of the same executor; those only while no round is under way.
  virtual void start(const RoundDescription& round) = 0;
  /// Waits for the oldest round that was started. Valid until the next finish(), or the start after the next.
  virtual RoundResult finish() = 0;
};

}  // namespace glint
