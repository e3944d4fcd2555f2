// Which token a sequence takes from a row of logits: the sampler with the sequence's own rules, and what is
// reported about the token.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "base/threads.h"
#include "engine/sampler.h"
#include "engine/sequence.h"

namespace glint {

struct SequenceSamplerOptions {
  std::vector<bool> sampleable;  // as for Sampler
  std::vector<TokenId> eos;      // end sequences that do not ignore them
  LogprobsMode logprobs_mode = LogprobsMode::raw_logprobs;
  ThreadPool* threads = nullptr;  // for run(); null: the caller alone. Not used between the calls
  Isa isa = best_isa();
};

class SequenceSampler {
 public:
  /// A row without a NaN or +inf that the sequence's rules leave no token of.
  static constexpr TokenId kNothingLeft = -2;

  explicit SequenceSampler(SequenceSamplerOptions options);

  /// Calls body(item, lane) for each item of [0, items), spread over the lanes; `lane` is what the other
  /// functions want, so that items do not meet. Which lane an item gets changes nothing.
  template <class Body>
  void run(int64_t items, const Body& body) {
    const auto lanes = std::min<int64_t>(items, worth_lanes(items));
    if (lanes <= 1) {
      for (int64_t item = 0; item < items; ++item) body(item, 0);
      return;
    }
    threads_->run(lanes, [&](int64_t lane, int /*worker*/) {
      for (int64_t item = lane; item < items; item += lanes) body(item, static_cast<int>(lane));
    });
  }

  /// The token that stands next in the sequence's output after the tokens that its rules were told of, which
  /// are `position` many; `logits` are those of the position before, and may be changed. A fixed function of
  /// the logits, the sequence's parameters, its seed and the tokens before. -1 if the row holds a NaN or an
  /// infinity or nothing above -inf; kNothingLeft. With `logprobs` a row is appended to it if the sequence
  /// asks for them.
  TokenId sample(const Sequence& sequence, int64_t position, std::span<float> logits, Logprobs* logprobs,
                 int lane = 0);

  /// Appends a row about the prompt's token that follows these logits. False as -1 above.
  bool score(const Sequence& sequence, TokenId token, std::span<float> logits, Logprobs& logprobs,
             int lane = 0);

  /// True if this token ends the sequence (min_tokens is sample()'s concern).
  [[nodiscard]] bool ends(const Sequence& sequence, TokenId token) const;

  [[nodiscard]] const std::vector<TokenId>& eos() const { return eos_; }

 private:
  struct Lane {
    Sampler sampler;
    ScannedRow row;           // as the model gave it
    ScannedRow ruled;         // with the rules applied
    std::vector<float> copy;  // the logits of `ruled` where the row itself is still needed
  };
  [[nodiscard]] int64_t worth_lanes(int64_t items) const;
  [[nodiscard]] bool plain() const;
  [[nodiscard]] bool raw() const;

  std::vector<TokenId> eos_;
  LogprobsMode mode_;
  ThreadPool* threads_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace glint
