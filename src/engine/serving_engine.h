// The engine's loop: one thread that schedules, has steps executed, samples and hands out.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/executor.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"

namespace glint {

struct ServingOptions {
  int64_t max_model_len = 0;
  SchedulerOptions scheduler;
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
  void check(const EngineRequest& request) const;
  std::unique_ptr<Sequence> make_sequence(EngineRequest request);
  void loop();
  /// Moves what arrived since the last step into the scheduler; waits while there is nothing to do. False to
  /// end.
  bool take_arrivals();
  void step();
  void take_token(const ScheduledRows& part, std::span<float> logits);
  std::span<const TokenId> forbidden_ids(const Sequence& sequence);
  /// Decides whether the newest token ends the sequence and fills the output's reason.
  void finish_if_ended(Sequence& sequence, StepOutput& output) const;
  [[nodiscard]] bool is_end_token(const Sequence& sequence, TokenId token) const;
  void end_all(FinishReason reason, const std::string& error);
  void publish_stats(double overhead_us);

  std::unique_ptr<Executor> executor_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ServingOptions options_;
  OutputSink sink_;
  Scheduler scheduler_;
  Sampler sampler_;
  StepDescription description_;
  std::vector<StepOutput> outputs_;
  std::vector<uint64_t> ended_;
  std::vector<TokenId> forbidden_;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::unique_ptr<Sequence>> submitted_;
  std::vector<uint64_t> aborted_;
  EngineStats stats_;
  double overhead_us_total_ = 0;
  uint64_t next_id_ = 1;
  bool stop_ = false;
  std::atomic<bool> alive_{true};
  std::thread thread_;
};

}  // namespace glint
