// A model in this process that answers the requests of `glint verify`, all of them at once.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bench/claim_examples.h"
#include "bench/claim_judge.h"
#include "engine/device_choice.h"
#include "engine/engine_options.h"
#include "server/generation_plan.h"

namespace glint::bench {

struct RunnerOptions {
  ops::ComputeDType dtype = ops::ComputeDType::bfloat16;
  int threads = 0;  // 0: one per CPU
  Isa isa = best_isa();
  DeviceChoice device{};
  int64_t drafts = 5;  // of a step
  int64_t sequences = 32;
};

struct ExampleResult {
  ModelAnswer answer;
  int64_t reasoning_tokens = 0;
  std::vector<TokenId> tokens;  // prompt and answer, the ending token included
};

struct ReferenceOutcome {
  double logit_gap = 0;  // largest distance of a token's logit; infinite if a text has another length
  int64_t logits = 0;    // compared
  int64_t steps = 0;     // verified
};

class ClaimRunner {
 public:
  ClaimRunner(const std::filesystem::path& folder, const RunnerOptions& options);
  ~ClaimRunner();
  ClaimRunner(const ClaimRunner&) = delete;
  ClaimRunner& operator=(const ClaimRunner&) = delete;

  /// In the order of the examples; temperature 0, at most 480 tokens each. `progress(done)` is called on this
  /// thread. Throws what a request or the engine failed with.
  std::vector<ExampleResult> answer(const std::vector<ClaimExample>& examples,
                                    const std::function<void(size_t)>& progress);

  /// How many of the texts come out token for token.
  size_t equal_texts(const std::vector<GreedyText>& texts, const std::function<void(size_t)>& progress);

  /// The texts once more, beside what other implementations computed on them.
  ReferenceOutcome compare(const std::vector<ReferenceText>& texts,
                           const std::function<void(size_t)>& progress);

  /// Of everything that ran so far.
  [[nodiscard]] DraftCounts drafts() const { return model_.engine->stats().drafts; }

 private:
  struct Raw {
    std::vector<TokenId> tokens;
    FinishReason finish = FinishReason::none;
    std::optional<TokenId> stop_token;
    std::string error;
    std::vector<float> logits;  // of the tokens, if asked for
  };
  size_t submit(std::vector<TokenId> prompt, SamplingParams sampling);
  /// Waits until all that was submitted has ended, and forgets it.
  std::vector<Raw> wait_all(const std::function<void(size_t)>& progress);
  void take(std::span<StepOutput> outputs);
  /// True if the tokens are the text's, as many as it has.
  [[nodiscard]] bool equals(Raw& raw, const GreedyText& text) const;
  [[nodiscard]] ExampleResult read_answer(GenerationPlan& plan, const Raw& raw) const;

  ServedModel model_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Raw> raw_;  // [EngineRequest::user]
  size_t ended_ = 0;
};

}  // namespace glint::bench
