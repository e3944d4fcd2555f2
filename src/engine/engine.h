// The serving loop: takes requests, runs them together step by step, hands out tokens.
//
// The engine decides (which rows run, which token is taken, when a sequence ends); a model executes one
// described step. It knows token ids only; text is the caller's business, except for stop strings, which need
// the decoded text to end a sequence in the step that completes them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "cache/page_tier.h"
#include "engine/logprobs.h"
#include "text/token_constraint.h"
#include "text/tokenizer.h"

namespace glint {

struct LogitBias {
  TokenId id = 0;
  float bias = 0;
};

/// The model's reasoning: an answer may begin inside of one, and outside of calls `open` begins another.
struct ReasoningRules {
  std::vector<TokenId> ends;  // any of these ends the first; empty: the answer does not begin inside one
  int64_t budget = -1;  // after so many tokens of reasoning, of all together, `close` is forced; -1: never
  TokenId close = -1;   // one of `ends`, if there are any
  std::vector<TokenId>
      never;  // not taken in the first: what would end the answer before its constraint is heard
  // For the budget; -1: there is no such token.
  TokenId open = -1;        // in the content: the reasoning goes on
  TokenId call_open = -1;   // a call begins, which ends a reasoning; inside, `open` is data
  TokenId call_close = -1;  // back to the content
};

/// In the order of their effect: the constraint; logit_bias; allowed_token_ids; bad_words; min_tokens;
/// repetition, frequency and presence penalty; temperature; min_p; top_k; top_p. A forced end of the
/// reasoning overrides all.
struct SamplingParams {
  float temperature = 1.0F;  // 0: greedy (lowest id on ties); top_k, top_p and min_p are then without effect
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0F;
  float min_p = 0.0F;
  std::optional<uint64_t> seed;  // absent: drawn by the engine
  int64_t max_tokens = 16;       // >= 1
  int64_t min_tokens =
      0;  // until then neither eos nor stop_token_ids end the sequence (they are not sampled)
  bool ignore_eos = false;  // eos ids of the config do not end the sequence
  std::vector<TokenId> stop_token_ids;
  std::vector<std::string> stop;    // searched in the decoded output text
  bool skip_special_tokens = true;  // how that text is decoded

  float presence_penalty = 0;   // subtracted once from ids that stand in the output
  float frequency_penalty = 0;  // subtracted as often as they stand there
  float repetition_penalty =
      1;  // > 0; ids of prompt and output: positive logits divided by it, others multiplied
  std::vector<LogitBias> logit_bias;                      // added
  std::optional<std::vector<TokenId>> allowed_token_ids;  // no others; not empty
  /// Token sequences, none empty: the last id of one is not taken where the output ends with all before it.
  std::vector<std::vector<TokenId>> bad_words;
  ReasoningRules reasoning;
  std::shared_ptr<TokenConstraint> constraint;  // of this request alone
  std::string constraint_field;                 // what asked for it, named in errors

  std::optional<int32_t> logprobs;  // report so many most likely ids beside each token; kAllLogprobs: all
  std::optional<int32_t> prompt_logprobs;  // the same for the prompt from its second token on
  /// With `logprobs`: beside each token of the answer these ids stand instead, the most likely first.
  std::vector<TokenId> logprob_token_ids;
};

enum class FinishReason { none, stop, length, abort, error };

using EngineClock = std::chrono::steady_clock;

/// What the engine knows of a request's way to its first token.
struct RequestTimes {
  EngineClock::time_point submitted;
  EngineClock::time_point started;  // its first rows were scheduled; unset while it waits
  int64_t cached_tokens = 0;        // of the prompt, found in the prefix cache at that start
};

/// What one request gets out of one step: tokens, an end, logprobs of the prompt, or several of these.
struct StepOutput {
  uint64_t request = 0;  // the id that submit() returned
  uint64_t user = 0;     // EngineRequest::user
  std::vector<TokenId>
      tokens;  // sampled in this step, the ending token included; may be empty when `finish` is set
  FinishReason finish = FinishReason::none;
  std::optional<TokenId> stop_token;  // finish == stop by a token: which one
  std::string stop_string;            // finish == stop by a stop string: which one
  std::string error;                  // finish == error: one line
  bool contradiction = false;         // finish == error: by the request's own rules; the engine is well
  int32_t drafted = 0;                // drafts of the sequence that the step verified
  EngineClock::time_point time;       // the tokens were taken
  RequestTimes times;
  Logprobs logprobs;         // of `tokens`, if asked for
  Logprobs prompt_logprobs;  // of the next tokens of the prompt, if asked for: a step may bring these alone

  /// Empty again; the memory of its parts stays.
  void clear();
};

struct EngineRequest {
  std::vector<TokenId> prompt;  // not empty
  SamplingParams sampling;
  uint64_t user = 0;       // handed back in every output
  int32_t priority = 0;    // lower goes first, if the engine goes by priority; else without effect
  std::string cache_salt;  // requests share cached pages only with those of the same salt
  bool internal = false;   // the server's own probe: never refused for a full queue, not counted as traffic
  /// Belongs to a request of which another part was admitted: not refused for a full queue, so that a request
  /// with several choices is admitted or refused as a whole.
  bool admitted = false;
};

/// Receives all outputs of a step in one call, on the engine's thread: it must not block, and in a steady
/// state it should not allocate. It may swap an output for another one, whose memory the engine then uses
/// again; the outputs are the engine's once the call has returned.
using OutputSink = std::function<void(std::span<StepOutput>)>;

inline constexpr int64_t kSpeculativeTokensMax = 8;
/// As a number of drafts: as many as pay at each step (speculation_policy.h).
inline constexpr int64_t kSpeculativeTokensAuto = -1;

/// Bounds of the queue in front of the running requests. 0: no bound.
struct QueueLimits {
  /// Requests that wait while every one of the max_num_seqs places is taken.
  int64_t requests = 0;
  /// Tokens of the requests that wait so; a request that would wait alone is never too long.
  int64_t tokens = 0;
};

/// The queue is full: HTTP 503.
class QueueFull : public Error {
 public:
  QueueFull(const std::string& message, int64_t retry_after_s)
      : Error(ErrorKind::busy, message), retry_after_s_(retry_after_s) {}
  /// How long requests have waited lately, 1 to 60 seconds.
  [[nodiscard]] int64_t retry_after_s() const { return retry_after_s_; }

 private:
  int64_t retry_after_s_;
};

/// What was really drafted and confirmed. A draft that stood behind the end of its sequence counts as not
/// confirmed.
struct DraftCounts {
  uint64_t drafts = 0;  // sequences times steps in which drafts were verified
  uint64_t draft_tokens = 0;
  uint64_t accepted_tokens = 0;
  std::array<uint64_t, kSpeculativeTokensMax> accepted_at{};  // [i]: the drafts 0..i were all confirmed
};

/// How many steps had how many tokens (prompt rows and decoded tokens together).
struct StepSizes {
  static constexpr std::array<int64_t, 13> kBounds{1,   8,    16,   32,   64,   128,  256,
                                                   512, 1024, 2048, 4096, 8192, 16384};
  std::array<uint64_t, kBounds.size() + 1> steps{};  // [i]: at most kBounds[i], more than the bound before
  uint64_t tokens = 0;
};

/// What the flight recorder keeps of a step.
struct StepRecord {
  uint64_t number = 0;  // from 1
  EngineClock::time_point begin;
  bool finished = false;
  int32_t sequences = 0, tokens = 0, sampled = 0;    // in the step
  int32_t running = 0, waiting = 0, pages_held = 0;  // at its begin
  float schedule_us = 0, execute_us = 0, sample_us = 0, draft_us = 0, hand_out_us = 0;
};

struct EngineHealth {
  bool alive = true;
  uint64_t step = 0;                             // number of the step that runs or ran last
  std::optional<EngineClock::duration> running;  // for how long; nothing between steps
  /// Since the end of the last step that gave usable logits (or needed none); nothing if there was none yet.
  std::optional<EngineClock::duration> since_forward;
};

/// Steps that the device took from end to end (engine/round.h).
struct RoundStats {
  uint64_t rounds = 0;
  uint64_t ahead = 0;  // of them, started before the results of the one before were there
  double idle_s = 0;   // that the device waited between one of those and the one before
};

struct EngineStats {
  int64_t running = 0, waiting = 0;
  int64_t pages_total = 0, pages_used = 0;
  uint64_t steps = 0, computed_tokens = 0, generated_tokens = 0;
  uint64_t preemptions = 0;
  uint64_t refused_by_requests = 0, refused_by_tokens = 0;  // by which bound of the queue
  uint64_t prefix_queries_tokens = 0, prefix_hits_tokens = 0;
  // The disk tier; all zero without one. Looked up: what the cache did not have; found: what was restored.
  uint64_t tier_queries_tokens = 0, tier_hits_tokens = 0;
  TierStats tier;
  DraftCounts drafts;
  uint64_t corrupted_requests = 0;  // ended because the model gave no usable logits
  uint64_t stalls = 0;              // steps without a row although something waited: never, by design
  StepSizes step_sizes;
  RoundStats rounds;
  // Time of all steps together by what it went to. The engine's own is scheduling and handing out.
  double execute_s = 0, sample_s = 0, draft_s = 0, own_s = 0;
  // Per step: the engine's own work (scheduling, hand-out), and taking tokens from logits. Neither holds the
  // model's time.
  double step_overhead_us_mean = 0, step_sampling_us_mean = 0;
};

/// Limits that a request is checked against before it is queued.
struct EngineLimits {
  int64_t max_model_len = 0;  // prompt + generated tokens
  int64_t max_num_seqs = 0;
  int64_t num_speculative_tokens = 0;
  bool prefix_caching = false;
  int64_t shared_prefix_tokens = 0;  // prompts share what is cached in units of so many tokens; 0: nothing
};

/// What is forgotten besides the cached pages that nobody uses.
struct CacheReset {
  /// Requests that run give up what they have computed and start again (their answers do not change). Without
  /// it they go on; what they have put into the cache is forgotten all the same.
  bool running = false;
  bool tier = false;  // the second home of pages, on disk
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// Queues a request and returns its id (thread-safe, does not wait for a step). Throws bad_input if the
  /// prompt is empty, an id is outside the vocabulary (in the prompt or in the sampling parameters), or
  /// prompt + 1 exceeds max_model_len; QueueFull if the queue is; the text gives the numbers.
  virtual uint64_t submit(EngineRequest request) = 0;

  /// Ends a request before the next step is built; no further output follows. Unknown ids are ignored.
  /// Thread-safe.
  virtual void abort(uint64_t id) = 0;

  /// Forgets the prefix cache before the next step is built: no request that is submitted afterwards finds
  /// what was cached before. Thread-safe, does not wait.
  virtual void reset_prefix_cache(CacheReset reset) = 0;

  [[nodiscard]] virtual EngineLimits limits() const = 0;
  [[nodiscard]] virtual EngineStats stats() const = 0;
  /// Never waits for a step. Any thread.
  [[nodiscard]] virtual EngineHealth health() const {
    EngineHealth health;
    health.alive = alive();
    return health;
  }
  /// The flight recorder: the last steps, oldest first. Any thread.
  [[nodiscard]] virtual std::vector<StepRecord> recent_steps() const { return {}; }
  /// By layer: choices of the busiest expert over the mean of the layer's experts, over the recent tokens
  /// (expert_load.h); 0 for a layer without experts. Empty: not counted. Any thread.
  [[nodiscard]] virtual std::vector<double> expert_load() const { return {}; }
  /// False once the loop has died; then every request has ended with an error.
  [[nodiscard]] virtual bool alive() const = 0;
};

}  // namespace glint
