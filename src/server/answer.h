// One request on its way through the engine: starts its choices, turns their steps into the answer, frees
// them when the client leaves. And the router that brings the engine's steps to the io threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "server/api_error.h"
#include "server/generation_plan.h"
#include "server/http.h"
#include "server/logprobs_json.h"
#include "server/serving_metrics.h"

namespace glint {

/// Who waits for outputs of the engine. On its io thread.
class StepReceiver {
 public:
  virtual ~StepReceiver() = default;
  virtual void step(size_t choice, const StepOutput& output) = 0;
  /// No further output comes.
  virtual void fail(const ApiError& error) = 0;
};

/// Which choice waits for which outputs. The table of an io thread is touched by that thread only; its inbox
/// is where the engine leaves outputs for it. The memory of outputs circulates between engine, inbox and io
/// thread, so that a steady stream allocates nothing on the engine's side.
class StepRouter {
 public:
  using Post = std::function<void(int thread, std::function<void()> task)>;
  /// Makes a call that has a task run on an io thread (HttpServer::make_waker).
  using MakeWaker = std::function<std::function<void()>(int thread, std::function<void()> task)>;
  /// `post` runs a task on an io thread.
  StepRouter(int threads, Post post, const MakeWaker& make_waker);

  /// For make_engine: leaves a step's outputs in the inboxes of the io threads that are concerned and wakes
  /// them. Neither waits nor, once the inboxes have grown to their size, allocates.
  void deliver(std::span<StepOutput> outputs);

  // On io thread `thread`:
  uint64_t add(int thread, std::shared_ptr<StepReceiver> receiver, size_t choice);
  void remove(int thread, uint64_t user);

  /// Ends every request with this error, soon. Any thread.
  void fail_all(const ApiError& error);

 private:
  struct Target {
    std::shared_ptr<StepReceiver> receiver;
    size_t choice = 0;
  };
  struct Table {
    std::unordered_map<uint64_t, Target> targets;
    uint64_t next = 0;
  };
  /// Outputs in the order of the steps; the first `count` are there, the rest is memory for later ones.
  struct Batch {
    std::vector<StepOutput> outputs;
    size_t count = 0;
    void swap_in(StepOutput& output);
  };
  struct Inbox {
    std::mutex mutex;
    Batch arrived;       // guarded by the mutex
    Batch taken;         // the io thread's
    bool fresh = false;  // the engine's: has got something in this delivery
    std::function<void()> wake;
  };
  void hand_out(int thread);

  std::vector<Table> tables_;
  std::vector<std::unique_ptr<Inbox>> inboxes_;
  Post post_;
};

/// Lives on its exchange's io thread.
class Answer : public StepReceiver, public std::enable_shared_from_this<Answer> {
 public:
  Answer(GenerationPlan plan, std::shared_ptr<const ServedModel> model,
         std::shared_ptr<HttpExchange> exchange, StepRouter& router, ServingMetrics& metrics);

  /// Kept as long as the answer.
  void hold(std::shared_ptr<void> ticket) { ticket_ = std::move(ticket); }
  /// Submits all choices; a streamed answer begins. A refusal by the engine becomes the answer.
  void start();
  void step(size_t choice, const StepOutput& output) override;
  /// Ends every choice as it is now, with the reason "abort".
  void abort();
  /// Ends the answer with this error: a status if nothing was sent, else an error event.
  void fail(const ApiError& error) override;

 private:
  /// What a stream has not shown yet.
  struct Held {
    std::vector<OutputDelta> deltas;
    OrderedJson logprobs;
    std::vector<TokenId> token_ids;
    int64_t tokens = 0;
  };
  struct Choice {
    OutputStream stream;
    RequestMeter meter;
    LogprobsWriter writer;
    DraftTally drafts = {};
    int64_t prompt_tokens = 0;
    int64_t completion_tokens = 0;
    int64_t cached_tokens = 0;
    uint64_t engine_id = 0;
    uint64_t user = 0;
    OrderedJson logprobs;                 // of the whole answer, unless it is streamed
    std::vector<TokenId> token_ids = {};  // likewise, if they are to be returned
    Held held = {};
    bool submitted = false;
    bool begun = false;  // its role chunk has been sent
    bool done = false;
  };
  /// What choices of one prompt share.
  struct Prompt {
    TokenId first = 0;
    Logprobs logprobs;  // as they come
    std::string echo;
    PromptReport report;
  };
  [[nodiscard]] size_t copies() const { return static_cast<size_t>(plan_.options.n); }
  /// Choices that the others of their prompt wait for: what these compute of the prompt, those find in the
  /// cache.
  [[nodiscard]] bool leads(size_t index) const { return index % copies() == 0; }
  [[nodiscard]] bool waits(size_t index) const;
  void submit(Choice& choice, size_t index);
  /// True for a choice whose first token lets others begin.
  [[nodiscard]] bool followers_wait(size_t index) const;
  void submit_followers(size_t leader);
  /// Takes a step's logprobs; returns what a chunk shows of them.
  OrderedJson take_logprobs(size_t index, const StepOutput& output);
  [[nodiscard]] OrderedJson echo_logprobs(size_t index);
  [[nodiscard]] WholeChoice whole_choice(size_t index);
  void release_all(FinishReason reason);
  /// Once: the request's span. `error` is empty if it has its whole answer.
  void report(const std::string& error);
  void end_choice(Choice& choice, const StepOutput& output, std::vector<OutputDelta>& deltas);
  void collect_ids(Choice& choice, const StepOutput& output) const;
  /// Adds to what is held; sends it when stream_interval says so.
  void stream_step(size_t index, std::vector<OutputDelta> deltas, OrderedJson logprobs, int64_t tokens);
  void emit(size_t index);
  void complete_if_done();
  [[nodiscard]] Usage usage_of(const Choice& choice) const;
  void add_metrics(Usage& usage) const;
  [[nodiscard]] Usage total_usage() const;

  GenerationPlan plan_;
  std::shared_ptr<const ServedModel> model_;
  std::shared_ptr<HttpExchange> exchange_;
  StepRouter& router_;
  ServingMetrics& metrics_;
  std::vector<Choice> choices_;
  std::vector<Prompt> prompts_;
  size_t open_ = 0;
  bool started_ = false;
  bool ended_ = false;
  bool aborted_ = false;          // from outside: no further choice begins
  std::shared_ptr<void> ticket_;  // see OpenAnswers
  std::string frame_;
};

}  // namespace glint
