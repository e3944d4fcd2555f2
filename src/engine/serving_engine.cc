#include "engine/serving_engine.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "base/error.h"

namespace glint {

namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

std::vector<bool> sampleable_ids(const Tokenizer& tokenizer, int64_t vocab_size) {
  std::vector<bool> sampleable(static_cast<size_t>(vocab_size));
  for (size_t id = 0; id < sampleable.size(); ++id)
    sampleable[id] = tokenizer.exists(static_cast<TokenId>(id));
  return sampleable;
}

uint64_t fresh_seed() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

}  // namespace

void StepOutput::clear() {
  request = user = 0;
  tokens.clear();
  finish = FinishReason::none;
  stop_token.reset();
  stop_string.clear();
  error.clear();
}

ServingEngine::ServingEngine(std::unique_ptr<Executor> executor, std::shared_ptr<const Tokenizer> tokenizer,
                             const ServingOptions& options, OutputSink sink)
    : executor_(std::move(executor)),
      tokenizer_(std::move(tokenizer)),
      options_(options),
      sink_(std::move(sink)),
      scheduler_(options.scheduler, executor_->pages_total()),
      sampler_(sampleable_ids(*tokenizer_, executor_->config().vocab_size), executor_->config().eos_token_id),
      drafter_(options.scheduler.num_speculative_tokens, executor_->config().vocab_size) {
  GLINT_CHECK(options.max_model_len >= 2 && scheduler_.fits(options.max_model_len));
  GLINT_CHECK(options.scheduler.max_num_batched_tokens <= executor_->rows_max());
  reserve_memory();
  if (options.choose_drafts) {
    policy_.emplace(options.scheduler.num_speculative_tokens, options.scheduler.max_num_seqs);
  }
  thread_ = std::thread([this] { loop(); });
}

ServingEngine::~ServingEngine() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  arrived_.notify_all();
  thread_.join();
}

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
  GLINT_CHECK(request.sampling.max_tokens >= 1);
}

void ServingEngine::reserve_memory() {
  const SchedulerOptions& limits = options_.scheduler;
  const auto sequences = static_cast<size_t>(limits.max_num_seqs);
  const auto drafts = static_cast<size_t>(limits.num_speculative_tokens);
  const auto rows = static_cast<size_t>(limits.max_num_batched_tokens);
  const size_t pages = sequences * static_cast<size_t>(Scheduler::pages_for(options_.max_model_len));
  description_.reserve(rows, pages);
  drafter_.reserve(rows, sequences, pages);
  valid_.reserve(sequences);
  ended_.reserve(sequences);
  outputs_.resize(sequences);
  for (StepOutput& output : outputs_) output.tokens.reserve(1 + drafts);
}

std::unique_ptr<Sequence> ServingEngine::make_sequence(EngineRequest request) const {
  auto sequence = std::make_unique<Sequence>();
  sequence->user = request.user;
  sequence->sampling = std::move(request.sampling);
  const SamplingParams& sampling = sequence->sampling;
  sequence->seed = sampling.seed ? *sampling.seed : fresh_seed();
  sequence->tokens = std::move(request.prompt);
  sequence->prompt_tokens = sequence->length();
  const int64_t room = options_.max_model_len - sequence->prompt_tokens;
  sequence->tokens_max = sequence->prompt_tokens + std::min(room, sampling.max_tokens);
  sequence->tokens.reserve(static_cast<size_t>(sequence->tokens_max));
  sequence->chain = chain_root(options_.cache_identity, request.cache_salt);
  // Here, on the caller's thread, what the loop would otherwise have to do or to allocate.
  scheduler_.prepare(*sequence);
  if (!sampling.stop.empty()) {
    sequence->stop.emplace(tokenizer_, std::make_shared<const StopStrings>(sampling.stop),
                           sampling.skip_special_tokens, sampling.min_tokens);
  }
  return sequence;
}

uint64_t ServingEngine::submit(EngineRequest request) {
  check(request);
  SequenceList arrival, finished;
  arrival.push_back(make_sequence(std::move(request)));
  uint64_t id;
  {
    const std::lock_guard lock(mutex_);
    if (!alive_.load()) fail(ErrorKind::internal, "the engine has stopped; see the server's log");
    id = arrival.back()->id = next_id_++;
    submitted_.splice(submitted_.end(), arrival);
    finished.swap(finished_);
    ++stats_.waiting;
  }
  arrived_.notify_one();
  return id;
}

void ServingEngine::abort(uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    aborted_.push_back(id);
  }
  arrived_.notify_one();
}

EngineLimits ServingEngine::limits() const {
  return {.max_model_len = options_.max_model_len, .max_num_seqs = options_.scheduler.max_num_seqs};
}

EngineStats ServingEngine::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

bool ServingEngine::take_arrivals() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock,
                [&] { return stop_ || !submitted_.empty() || !aborted_.empty() || !scheduler_.idle(); });
  while (!submitted_.empty()) scheduler_.add(submitted_, submitted_.begin());
  for (const uint64_t id : aborted_) scheduler_.remove(id, finished_);
  aborted_.clear();
  return !stop_;
}

void ServingEngine::loop() {
  try {
    while (take_arrivals()) step();
    end_all(FinishReason::abort, "the server is shutting down");
  } catch (const std::exception& error) {
    alive_.store(false);
    take_arrivals();
    end_all(FinishReason::error, cat("the engine has stopped: ", error.what()));
  }
}

void ServingEngine::step() {
  const auto begin = Clock::now();
  const std::vector<ScheduledRows>& rows = scheduler_.schedule();
  if (rows.empty()) {
    SequenceList none;
    publish_stats(0, none);
    return;
  }
  describe_step(rows, description_);
  const auto execute = Clock::now();
  float* logits = executor_->execute(description_);
  const auto executed = Clock::now();
  output_count_ = 0;
  ended_.clear();
  valid_.clear();
  for (const ScheduledRows& part : rows) {
    valid_.push_back(part.samples ? take_tokens(part, logits) : part.rows);
    if (part.samples)
      logits += (1 + part.sequence->drafts.size()) * static_cast<size_t>(executor_->config().vocab_size);
  }
  const auto begin_draft = Clock::now();
  draft(rows, microseconds(begin_draft - execute) * 1e-6);
  const auto drafted = Clock::now();
  scheduler_.commit(valid_);
  SequenceList finished;
  for (const uint64_t id : ended_) scheduler_.remove(id, finished);
  sampling_us_total_ += microseconds(begin_draft - executed);
  publish_stats(microseconds((execute - begin) + (Clock::now() - drafted)), finished);
  hand_out();
}

void ServingEngine::draft(const std::vector<ScheduledRows>& rows, double execute_seconds) {
  int64_t tokens = options_.scheduler.num_speculative_tokens;
  int64_t sequences = 0;
  if (policy_) {
    for (const ScheduledRows& part : rows) sequences += part.samples && !part.sequence->ended;
    tokens = policy_->choose(sequences);
    const bool decoding = std::ranges::all_of(rows, &ScheduledRows::decodes);
    if (decoding) policy_->executed(static_cast<int64_t>(description_.tokens.size()), execute_seconds);
  }
  const auto begin = Clock::now();
  drafter_.draft(*executor_, sampler_, rows, valid_, description_, tokens);
  if (policy_ && std::ranges::all_of(rows, &ScheduledRows::decodes)) {
    policy_->drafted(sequences, tokens, microseconds(Clock::now() - begin) * 1e-6);
  }
}

StepOutput& ServingEngine::next_output(const Sequence& sequence) {
  if (output_count_ == outputs_.size()) outputs_.emplace_back();
  StepOutput& output = outputs_[output_count_++];
  output.clear();
  output.request = sequence.id;
  output.user = sequence.user;
  return output;
}

void ServingEngine::hand_out() {
  if (output_count_ > 0) sink_(std::span(outputs_).first(output_count_));
}

int64_t ServingEngine::take_tokens(const ScheduledRows& part, float* logits) {
  Sequence& sequence = *part.sequence;
  const auto vocab_size = static_cast<size_t>(executor_->config().vocab_size);
  const auto drafted = static_cast<int64_t>(sequence.drafts.size());
  StepOutput& output = next_output(sequence);
  int64_t taken = 0;
  while (taken <= drafted) {
    const TokenId token = sampler_.sample(sequence, sequence.generated(), {logits, vocab_size});
    logits += vocab_size;
    if (token < 0) {
      output.finish = FinishReason::error;
      output.error = cat("the model gave no usable logits at position ", sequence.length() - 1,
                         " (a NaN, an infinity, or nothing that may be sampled)");
      break;
    }
    ++taken;
    if (!take_token(sequence, token, output)) break;
    // The next row was computed for the draft: it serves only if the draft is what was taken.
    if (taken <= drafted && sequence.drafts[static_cast<size_t>(taken - 1)] != token) break;
  }
  drafter_.count(drafted, std::max<int64_t>(0, taken - 1));
  if (policy_ && output.finish == FinishReason::none) policy_->verified(drafted, taken - 1);
  sequence.ended = output.finish != FinishReason::none;
  if (sequence.ended) ended_.push_back(sequence.id);
  return taken == 0 ? 0 : part.rows - drafted + taken - 1;
}

bool ServingEngine::take_token(Sequence& sequence, TokenId token, StepOutput& output) const {
  sequence.tokens.push_back(token);
  output.tokens.push_back(token);
  if (sampler_.ends(sequence, token)) {
    output.finish = FinishReason::stop;
    output.stop_token = token;
    return false;
  }
  if (sequence.stop) {
    if (const auto matched = sequence.stop->push(token)) {
      output.finish = FinishReason::stop;
      output.stop_string = *matched;
      return false;
    }
  }
  if (sequence.length() < sequence.tokens_max) return true;
  output.finish = FinishReason::length;
  return false;
}

void ServingEngine::end_all(FinishReason reason, const std::string& error) {
  output_count_ = 0;
  for (const Sequence* sequence : scheduler_.all()) {
    StepOutput& output = next_output(*sequence);
    output.finish = reason;
    output.error = error;
  }
  SequenceList finished;
  for (size_t i = 0; i < output_count_; ++i) scheduler_.remove(outputs_[i].request, finished);
  publish_stats(0, finished);
  hand_out();
}

void ServingEngine::publish_stats(double overhead_us, SequenceList& finished) {
  const std::lock_guard lock(mutex_);
  finished_.splice(finished_.end(), finished);
  stats_.running = scheduler_.running();
  stats_.waiting = scheduler_.waiting() + static_cast<int64_t>(submitted_.size());
  stats_.pages_total = scheduler_.pool().total();
  stats_.pages_used = scheduler_.pool().held();
  stats_.preemptions = scheduler_.counts().preemptions;
  stats_.prefix_queries_tokens = scheduler_.counts().prefix_queries_tokens;
  stats_.prefix_hits_tokens = scheduler_.counts().prefix_hits_tokens;
  stats_.drafts = drafter_.counts();
  if (overhead_us == 0) return;
  ++stats_.steps;
  overhead_us_total_ += overhead_us;
  stats_.step_overhead_us_mean = overhead_us_total_ / static_cast<double>(stats_.steps);
  stats_.step_sampling_us_mean = sampling_us_total_ / static_cast<double>(stats_.steps);
  for (size_t i = 0; i < output_count_; ++i) stats_.generated_tokens += outputs_[i].tokens.size();
  for (const int64_t valid : valid_) stats_.computed_tokens += static_cast<uint64_t>(valid);
}

}  // namespace glint
