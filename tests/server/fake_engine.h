// An engine that plays scripts instead of running a model: the same contract, exact answers, exact timing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "text/stop_matcher.h"

namespace glint {

struct FakeScript {
  std::vector<std::vector<TokenId>> steps;  // tokens of each step, without the ending token
  FinishReason finish = FinishReason::stop;
  std::optional<TokenId> stop_token;  // finish == stop: comes with the last step
  std::string error;
  int32_t drafts = 0;    // verified in every step
  bool endless = false;  // plays its steps again and again
};

class FakeEngine : public Engine {
 public:
  explicit FakeEngine(OutputSink sink, std::shared_ptr<const Tokenizer> tokenizer);
  ~FakeEngine() override;

  // What a request gets; changed by tests before they send one.
  std::function<FakeScript(const EngineRequest&)> script;
  EngineLimits limits_now{4096, 256, 0};
  int64_t cached_tokens_now = 0;  // of every prompt
  std::atomic<bool> alive_now{true};

  /// One step of every running request.
  void step();
  /// Steps by itself from now on.
  void run(std::chrono::microseconds period);
  /// Ends everything with an error, as a dying engine does.
  void die();

  [[nodiscard]] std::vector<EngineRequest> submitted() const;
  [[nodiscard]] size_t running() const;
  [[nodiscard]] std::vector<CacheReset> resets() const;
  [[nodiscard]] size_t aborted() const { return aborted_; }

  uint64_t submit(EngineRequest request) override;
  void abort(uint64_t id) override;
  void reset_prefix_cache(CacheReset reset) override;
  [[nodiscard]] EngineLimits limits() const override { return limits_now; }
  [[nodiscard]] EngineStats stats() const override { return {}; }
  [[nodiscard]] bool alive() const override { return alive_now; }

 private:
  struct Running {
    EngineRequest request;
    FakeScript script;
    size_t next = 0;
    int64_t tokens = 0;
    std::shared_ptr<StopMatcher> stop;
    bool reported = false;  // on the prompt
    RequestTimes times = {};
  };
  void add_reports(Running& running, StepOutput& output) const;
  StepOutput advance(uint64_t id, Running& running);

  OutputSink sink_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Running> running_;
  std::vector<EngineRequest> submitted_;
  std::vector<CacheReset> resets_;
  uint64_t next_id_ = 1000;
  std::atomic<size_t> aborted_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

/// One token per step, then <|user|>.
FakeScript script_of(std::string_view text);
/// The steps of `pieces`: a token that reaches over a cut belongs to the later piece.
FakeScript script_of_pieces(const std::vector<std::string>& pieces);

}  // namespace glint
