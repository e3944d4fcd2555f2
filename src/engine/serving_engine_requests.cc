// What other threads ask of the serving engine: requests on their way in, limits, figures, health.
#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "base/error.h"
#include "engine/expert_load.h"
#include "engine/serving_engine.h"
#include "ops/types.h"

namespace glint {

namespace {

using Clock = std::chrono::steady_clock;

void check_sampling_ids(const SamplingParams& sampling, int64_t vocab_size) {
  const auto check = [vocab_size](const char* field, TokenId id) {
    if (id >= 0 && id < vocab_size) return;
    fail(ErrorKind::bad_input, field, " holds the token id ", id, ", outside the vocabulary of ", vocab_size);
  };
  for (const TokenId id : sampling.stop_token_ids) check("stop_token_ids", id);
  for (const LogitBias& entry : sampling.logit_bias) check("logit_bias", entry.id);
  for (const TokenId id : sampling.logprob_token_ids) check("logprob_token_ids", id);
  for (const TokenId id : sampling.reasoning.ends) check("the end of the reasoning", id);
  if (sampling.reasoning.budget >= 0) check("the end of the reasoning", sampling.reasoning.close);
  if (sampling.allowed_token_ids) {
    for (const TokenId id : *sampling.allowed_token_ids) check("allowed_token_ids", id);
  }
  for (const std::vector<TokenId>& word : sampling.bad_words) {
    GLINT_CHECK(!word.empty());
    for (const TokenId id : word) check("bad_words", id);
  }
}

uint64_t fresh_seed() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}
}  // namespace

void ServingEngine::check(const EngineRequest& request) const {
  const auto length = static_cast<int64_t>(request.prompt.size());
  if (length == 0) fail(ErrorKind::bad_input, "the prompt is empty: at least one token is needed");
  if (length + 1 > options_.max_model_len) {
    fail(ErrorKind::bad_input, "This model's maximum context length is ", options_.max_model_len,
         " tokens. However, your request has ", length,
         " prompt tokens and needs room for at least one more: shorten the prompt, or start the server with "
         "a larger "
         "--max-model-len");
  }
  const int64_t vocab_size = executor_->config().vocab_size;
  for (const TokenId id : request.prompt) {
    if (id < 0 || id >= vocab_size) {
      fail(ErrorKind::bad_input, "token id ", id, " is outside the vocabulary of ", vocab_size);
    }
  }
  check_sampling_ids(request.sampling, vocab_size);
  GLINT_CHECK(request.sampling.max_tokens >= 1);
}

std::unique_ptr<Sequence> ServingEngine::make_sequence(EngineRequest request) const {
  auto sequence = std::make_unique<Sequence>();
  sequence->user = request.user;
  sequence->internal = request.internal;
  if (options_.by_priority) sequence->priority = request.priority;
  sequence->sampling = std::move(request.sampling);
  const SamplingParams& sampling = sequence->sampling;
  sequence->seed = sampling.seed ? *sampling.seed : fresh_seed();
  sequence->tokens = std::move(request.prompt);
  sequence->prompt_tokens = sequence->length();
  const int64_t room = options_.max_model_len - sequence->prompt_tokens;
  sequence->tokens_max = sequence->prompt_tokens + std::min(room, sampling.max_tokens);
  sequence->tokens.reserve(static_cast<size_t>(sequence->tokens_max));
  sequence->rules = TokenRules(sampling, sequence->tokens, sampler_.eos(), executor_->config().vocab_size,
                               sequence->tokens_max - sequence->prompt_tokens);
  sequence->chain = chain_root(options_.cache_identity, request.cache_salt);
  // Here, on the caller's thread, what the loop would otherwise have to do or to allocate.
  scheduler_.prepare(*sequence);
  if (!sampling.stop.empty()) {
    sequence->stop.emplace(tokenizer_, std::make_shared<const StopStrings>(sampling.stop),
                           sampling.skip_special_tokens, sampling.min_tokens);
  }
  return sequence;
}

void ServingEngine::check_queue(const Sequence& sequence) {
  // A request that finds a free place waits for the next step only.
  const int64_t queued = stats_.waiting + stats_.running - options_.scheduler.max_num_seqs;
  if (queued < 0) return;
  const int64_t retry_s = retry_after_s_;
  const QueueLimits& limits = options_.queue;
  if (limits.requests > 0 && queued >= limits.requests) {
    ++stats_.refused_by_requests;
    throw QueueFull(cat("the queue is full: ", queued, " requests wait, --max-queued-requests is ",
                        limits.requests, "; try again in ", retry_s, " s"),
                    retry_s);
  }
  if (limits.tokens > 0 && queued > 0 && waiting_tokens_ + sequence.length() > limits.tokens) {
    ++stats_.refused_by_tokens;
    throw QueueFull(
        cat("the queue is full: ", waiting_tokens_, " tokens wait, this request has ", sequence.length(),
            ", --max-queued-tokens is ", limits.tokens, "; try again in ", retry_s, " s"),
        retry_s);
  }
}

uint64_t ServingEngine::submit(EngineRequest request) {
  check(request);
  const bool admitted = request.internal || request.admitted;
  SequenceList arrival, finished;
  arrival.push_back(make_sequence(std::move(request)));
  uint64_t id;
  {
    const std::lock_guard lock(mutex_);
    if (!alive_.load()) fail(ErrorKind::internal, "the engine has stopped; see the server's log");
    if (!admitted) check_queue(*arrival.back());
    Sequence& sequence = *arrival.back();
    id = sequence.id = next_id_++;
    sequence.times.submitted = Clock::now();
    waiting_tokens_ += sequence.length();
    submitted_.splice(submitted_.end(), arrival);
    finished.swap(finished_);
    ++stats_.waiting;
    ++arrivals_;
  }
  arrived_.notify_one();
  return id;
}

void ServingEngine::abort(uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    aborted_.push_back(id);
    ++arrivals_;
  }
  arrived_.notify_one();
}

void ServingEngine::reset_prefix_cache(CacheReset reset) {
  {
    const std::lock_guard lock(mutex_);
    if (reset_) reset = {reset.running || reset_->running, reset.tier || reset_->tier};
    reset_ = reset;
    ++arrivals_;
  }
  arrived_.notify_one();
}

EngineLimits ServingEngine::limits() const {
  return {.max_model_len = options_.max_model_len,
          .max_num_seqs = options_.scheduler.max_num_seqs,
          .num_speculative_tokens = options_.scheduler.num_speculative_tokens,
          .prefix_caching = options_.scheduler.prefix_caching,
          .shared_prefix_tokens = options_.scheduler.prefix_caching ? ops::kPageTokens : 0};
}

std::vector<double> ServingEngine::expert_load() const {
  const ExpertLoad* const load = executor_->expert_load();
  return load == nullptr ? std::vector<double>() : load->busiest_over_mean();
}

EngineStats ServingEngine::stats() const {
  EngineStats stats;
  {
    const std::lock_guard lock(mutex_);
    stats = stats_;
  }
  if (tier_ != nullptr) stats.tier = tier_->stats();
  return stats;
}

EngineHealth ServingEngine::health() const {
  EngineHealth health;
  health.alive = alive_.load();
  health.step = ring_.steps();
  const Clock::duration now = Clock::now().time_since_epoch();
  if (const int64_t began = step_began_.load(); began != 0) {
    health.running = std::max(Clock::duration(0), now - Clock::duration(began));
  }
  if (const int64_t ended = forward_ended_.load(); ended != 0) {
    health.since_forward = std::max(Clock::duration(0), now - Clock::duration(ended));
  }
  return health;
}

}  // namespace glint
