// The engine's loop: one thread that schedules, has steps executed, samples, drafts and hands out.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/drafter.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "engine/scheduler.h"
#include "engine/sequence_sampler.h"
#include "engine/speculation_policy.h"

namespace glint {

struct ServingOptions {
  int64_t max_model_len = 0;
  SchedulerOptions scheduler;
  bool choose_drafts = false;  // scheduler.num_speculative_tokens is a limit: see speculation_policy.h
  std::string cache_identity;  // what page contents depend on besides the tokens; see page_hash.h
};

class ServingEngine final : public Engine {
 public:
  /// Starts the loop. `sink` is called on the loop's thread.
  ServingEngine(std::unique_ptr<Executor> executor, std::shared_ptr<const Tokenizer> tokenizer,
                const ServingOptions& options, OutputSink sink);
  /// Ends all requests with FinishReason::abort, then the loop.
  ~ServingEngine() override;

  uint64_t submit(EngineRequest request) override;
  void abort(uint64_t id) override;
  [[nodiscard]] EngineLimits limits() const override;
  [[nodiscard]] EngineStats stats() const override;
  [[nodiscard]] bool alive() const override { return alive_.load(); }

 private:
  /// Takes the memory that the largest step needs, so that the loop allocates nothing later.
  void reserve_memory();
  void check(const EngineRequest& request) const;
  std::unique_ptr<Sequence> make_sequence(EngineRequest request) const;
  void loop();
  /// Moves what arrived since the last step into the scheduler; waits while there is nothing to do. False to
  /// end.
  bool take_arrivals();
  void step();
  /// Takes the tokens that a part's logits give: one, and one more for each draft that it confirms. Returns
  /// how many of the part's rows hold the sequence's tokens.
  int64_t take_tokens(const ScheduledRows& part, float* logits);
  /// Appends one token; false if it ended the sequence.
  bool take_token(Sequence& sequence, TokenId token, StepOutput& output) const;
  StepOutput& next_output(const Sequence& sequence);
  void hand_out();
  /// Drafts for the next step.
  void draft(const std::vector<ScheduledRows>& rows, double execute_seconds);
  void end_all(FinishReason reason, const std::string& error);
  /// Also leaves `finished` for others to free.
  void publish_stats(double overhead_us, SequenceList& finished);

  std::unique_ptr<Executor> executor_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ServingOptions options_;
  OutputSink sink_;
  Scheduler scheduler_;
  SequenceSampler sampler_;
  Drafter drafter_;
  std::optional<SpeculationPolicy> policy_;
  StepDescription description_;
  std::vector<int64_t> valid_;
  std::vector<StepOutput> outputs_;  // the step's are the first output_count_; the rest is memory for later
  size_t output_count_ = 0;
  std::vector<uint64_t> ended_;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  SequenceList submitted_;
  std::vector<uint64_t> aborted_;
  SequenceList finished_;  // for whoever submits next to free: not the loop's work
  EngineStats stats_;
  double overhead_us_total_ = 0, sampling_us_total_ = 0;
  uint64_t next_id_ = 1;
  bool stop_ = false;
  std::atomic<bool> alive_{true};
  std::thread thread_;
};

}  // namespace glint
