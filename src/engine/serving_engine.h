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
#include "engine/run_ahead.h"
#include "engine/scheduler.h"
#include "engine/sequence_sampler.h"
#include "engine/speculation_policy.h"
#include "engine/step_ring.h"
#include "engine/token_taker.h"

namespace glint {

struct ServingOptions {
  int64_t max_model_len = 0;
  SchedulerOptions scheduler;
  bool choose_drafts = false;  // scheduler.num_speculative_tokens is a limit: see speculation_policy.h
  bool by_priority = false;    // requests go by EngineRequest::priority, then by arrival
  LogprobsMode logprobs_mode = LogprobsMode::raw_logprobs;
  std::string cache_identity;  // what page contents depend on besides the tokens; see page_hash.h
  QueueLimits queue;
  /// How long the loop looks for the next request before it sleeps; negative: it never sleeps.
  std::chrono::microseconds idle_spin{50};
};

class ServingEngine final : public Engine {
 public:
  /// Starts the loop. `sink` is called on the loop's thread. `tier`, if any, copies the executor's pages.
  ServingEngine(std::unique_ptr<Executor> executor, std::shared_ptr<const Tokenizer> tokenizer,
                const ServingOptions& options, OutputSink sink, std::unique_ptr<PageTier> tier = nullptr);
  /// Ends all requests with FinishReason::abort, then the loop.
  ~ServingEngine() override;

  uint64_t submit(EngineRequest request) override;
  void abort(uint64_t id) override;
  void reset_prefix_cache(CacheReset reset) override;
  [[nodiscard]] EngineLimits limits() const override;
  [[nodiscard]] EngineStats stats() const override;
  [[nodiscard]] std::vector<double> expert_load() const override;
  [[nodiscard]] bool alive() const override { return alive_.load(); }
  [[nodiscard]] EngineHealth health() const override;
  [[nodiscard]] std::vector<StepRecord> recent_steps() const override { return ring_.copy(); }

 private:
  /// Takes the memory that the largest step needs, so that the loop allocates nothing later.
  void reserve_memory();
  void check(const EngineRequest& request) const;
  std::unique_ptr<Sequence> make_sequence(EngineRequest request) const;
  /// Under the lock. Throws QueueFull.
  void check_queue(const Sequence& sequence);
  void loop();
  /// Moves what arrived since the last step into the scheduler; waits while there is nothing to do. False to
  /// end.
  bool take_arrivals();
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  void step();
  /// The middle of a step: executes `rows`, takes the tokens, drafts; step() commits and hands out.
  struct StepTimes {
    EngineClock::time_point execute, executed, sampled, drafted;
  };
  StepTimes run_step(const std::vector<ScheduledRows>& rows);
  /// The same as a round.
  StepTimes run_round(const std::vector<ScheduledRows>& rows);
  void take_parts(const std::vector<ScheduledRows>& rows, std::span<TakenPart> parts);
  void take_drafts(const std::vector<ScheduledRows>& rows);
  void choose_drafts(int64_t sequences);
  /// Nothing to run; or nothing is left of the round that was started ahead.
  void empty_step();
  void begin_record(const std::vector<ScheduledRows>& rows, EngineClock::time_point begin);
  void count_rows(const ScheduledRows& part, int64_t valid);
  StepOutput& next_output(const Sequence& sequence);
  void hand_out();
  /// Drafts for the next step.
  void draft(const std::vector<ScheduledRows>& rows, double execute_seconds);
  void end_all(FinishReason reason, const std::string& error);
  /// Also leaves `finished` for others to free.
  void publish_stats(SequenceList& finished);
  void publish_queue();
  void count_times(const StepRecord& record);

  std::unique_ptr<Executor> executor_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ServingOptions options_;
  OutputSink sink_;
  std::unique_ptr<PageTier> tier_;  // its threads use the executor's memory and call this engine
  Scheduler scheduler_;
  SequenceSampler sampler_;
  TokenTaker taker_;
  Drafter drafter_;
  RunAhead run_ahead_;
  std::optional<SpeculationPolicy> policy_;
  StepDescription description_;
  std::vector<int64_t> valid_;
  std::vector<StepOutput> outputs_;  // the step's are the first output_count_; the rest is memory for later
  size_t output_count_ = 0;
  StepRing ring_;
  StepRecord record_;
  int64_t step_tokens_ = 0;  // of the running step, the server's own probes left out
  int64_t step_failed_ = 0;  // sequences without usable logits
  EngineStats counted_;      // what the loop counts itself; publish_stats() copies it
  std::vector<uint64_t> ended_;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  SequenceList submitted_;
  std::vector<uint64_t> aborted_;
  std::optional<CacheReset> reset_;
  SequenceList finished_;  // for whoever submits next to free: not the loop's work
  EngineStats stats_;
  int64_t waiting_tokens_ = 0;  // of the requests that stats_.waiting counts
  int64_t retry_after_s_ = 1;
  double queue_seconds_ = 0;  // that requests waited lately; the loop's own
  uint64_t next_id_ = 1;
  bool stop_ = false;
  bool tier_event_ = false;
  uint32_t arrivals_taken_ = 0;         // arrivals_ when the loop last took what came
  int64_t drafts_ = 0;                  // of a sequence, as last chosen
  bool drafts_waiting_ = false;         // no step has begun with that choice yet
  bool rounds_measured_ = false;        // the policy knows how long rounds take
  bool blocked_ = false;                // the loop's own: nothing can run before the tier has done something
  std::atomic<uint32_t> arrivals_{0};   // changes whenever there is something to take
  std::atomic<int64_t> step_began_{0};  // EngineClock's count; 0 between steps
  std::atomic<int64_t> forward_ended_{0};  // of the last usable one; 0: none yet
  std::atomic<bool> alive_{true};
  std::thread thread_;
};

}  // namespace glint
