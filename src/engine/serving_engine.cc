#include "engine/serving_engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/spin.h"
#include "ops/types.h"

namespace glint {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTierPoll{50};

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

std::vector<bool> sampleable_ids(const Tokenizer& tokenizer, int64_t vocab_size) {
  std::vector<bool> sampleable(static_cast<size_t>(vocab_size));
  for (size_t id = 0; id < sampleable.size(); ++id)
    sampleable[id] = tokenizer.exists(static_cast<TokenId>(id));
  return sampleable;
}

/// Sequences that go on and draft after the step.
int64_t drafting(const std::vector<ScheduledRows>& rows) {
  return std::ranges::count_if(
      rows, [](const ScheduledRows& part) { return part.samples && !part.sequence->ended; });
}

}  // namespace

void StepOutput::clear() {
  request = user = 0;
  tokens.clear();
  finish = FinishReason::none;
  stop_token.reset();
  stop_string.clear();
  error.clear();
  contradiction = false;
  drafted = 0;
  logprobs.clear();
  prompt_logprobs.clear();
}

ServingEngine::ServingEngine(std::unique_ptr<Executor> executor, std::shared_ptr<const Tokenizer> tokenizer,
                             const ServingOptions& options, OutputSink sink, std::unique_ptr<PageTier> tier)
    : executor_(std::move(executor)),
      tokenizer_(std::move(tokenizer)),
      options_(options),
      sink_(std::move(sink)),
      tier_(std::move(tier)),
      scheduler_(options.scheduler, executor_->pages_total(), tier_.get()),
      sampler_({.sampleable = sampleable_ids(*tokenizer_, executor_->config().vocab_size),
                .eos = executor_->config().eos_token_id,
                .logprobs_mode = options.logprobs_mode,
                .threads = executor_->threads()}),
      taker_(sampler_, executor_->config().vocab_size),
      drafter_(options.scheduler.num_speculative_tokens, executor_->config().vocab_size),
      run_ahead_(executor_->rounds(), scheduler_, options.scheduler.num_speculative_tokens),
      drafts_(options.scheduler.num_speculative_tokens) {
  GLINT_CHECK(options.max_model_len >= 2 && scheduler_.fits(options.max_model_len));
  GLINT_CHECK(options.scheduler.max_num_batched_tokens <= executor_->rows_max());
  reserve_memory();
  if (RoundRunner* rounds = executor_->rounds()) {
    rounds->set_sampleable(sampleable_ids(*tokenizer_, executor_->config().vocab_size));
  }
  if (options.choose_drafts) {
    policy_.emplace(options.scheduler.num_speculative_tokens, options.scheduler.max_num_seqs);
  }
  SequenceList none;
  publish_stats(none);
  if (tier_ != nullptr) {
    tier_->listen([this] {
      {
        const std::lock_guard lock(mutex_);
        tier_event_ = true;
        ++arrivals_;
      }
      arrived_.notify_one();
    });
  }
  thread_ = std::thread([this] { loop(); });
}

ServingEngine::~ServingEngine() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    ++arrivals_;
  }
  arrived_.notify_all();
  thread_.join();
  tier_.reset();
}

void ServingEngine::reserve_memory() {
  const SchedulerOptions& limits = options_.scheduler;
  const auto sequences = static_cast<size_t>(limits.max_num_seqs);
  const auto drafts = static_cast<size_t>(limits.num_speculative_tokens);
  const auto rows = static_cast<size_t>(limits.max_num_batched_tokens);
  const size_t pages = sequences * static_cast<size_t>(Scheduler::pages_for(options_.max_model_len));
  description_.reserve(rows, pages);
  drafter_.reserve(rows, sequences, pages);
  // A round reaches beyond the last token.
  run_ahead_.reserve(sequences,
                     pages + sequences * (1 + 3 * (1 + drafts) / static_cast<size_t>(ops::kPageTokens) + 1));
  valid_.reserve(sequences);
  ended_.reserve(sequences);
  outputs_.resize(sequences);
  for (StepOutput& output : outputs_) output.tokens.reserve(1 + drafts);
  taker_.reserve(sequences, 1 + drafts);
}

/// Under the lock, which is open while it looks and while it sleeps. A request that comes while the loop
/// looks costs no wake-up by the system.
void ServingEngine::wait_for_work(std::unique_lock<std::mutex>& lock) {
  const auto something = [&] {
    return stop_ || tier_event_ || reset_ || !submitted_.empty() || !aborted_.empty() ||
           (!scheduler_.idle() && !blocked_);
  };
  if (something()) return;
  // A load that takes too long is noticed by asking.
  if (blocked_) {
    arrived_.wait_for(lock, kTierPoll, something);
    return;
  }
  const uint32_t seen = arrivals_.load();
  const bool forever = options_.idle_spin.count() < 0;
  lock.unlock();
  const auto end = Clock::now() + options_.idle_spin;
  while (arrivals_.load(std::memory_order_acquire) == seen && (forever || Clock::now() < end)) pause_cpu();
  lock.lock();
  arrived_.wait(lock, something);
}

bool ServingEngine::take_arrivals() {
  if (run_ahead_.under_way()) return true;  // nothing may join or leave now
  std::unique_lock lock(mutex_);
  wait_for_work(lock);
  arrivals_taken_ = arrivals_.load();
  tier_event_ = false;
  while (!submitted_.empty()) scheduler_.add(submitted_, submitted_.begin());
  for (const uint64_t id : aborted_) scheduler_.remove(id, finished_);
  aborted_.clear();
  // Whatever arrived has not looked into the cache yet.
  if (const auto reset = std::exchange(reset_, std::nullopt)) scheduler_.forget_pages(*reset);
  return !stop_;
}

void ServingEngine::loop() {
  try {
    while (take_arrivals()) step();
    end_all(FinishReason::abort, "the server is shutting down");
  } catch (const std::exception& error) {
    alive_.store(false);
    step_began_ = 0;
    run_ahead_.abandon();
    take_arrivals();
    end_all(FinishReason::error, cat("the engine has stopped: ", error.what()));
  }
}

void ServingEngine::step() {
  const auto begin = Clock::now();
  step_began_ = begin.time_since_epoch().count();
  const bool under_way = run_ahead_.under_way();
  const std::vector<ScheduledRows>& rows =
      under_way ? scheduler_.schedule_decodes_alone() : scheduler_.schedule();
  blocked_ = rows.empty() && !scheduler_.idle() && !under_way;
  if (rows.empty()) return empty_step();
  begin_record(rows, begin);
  output_count_ = 0;
  ended_.clear();
  valid_.clear();
  step_failed_ = 0;
  const bool round = under_way || run_ahead_.takes(rows, drafts_);
  const StepTimes times = round ? run_round(rows) : run_step(rows);
  scheduler_.commit(valid_);
  SequenceList finished;
  for (const uint64_t id : ended_) scheduler_.remove(id, finished);
  if (step_failed_ == 0 || step_failed_ < record_.sampled) {
    forward_ended_ = times.executed.time_since_epoch().count();
  }
  record_.schedule_us = static_cast<float>(microseconds(times.execute - begin));
  record_.execute_us = static_cast<float>(microseconds(times.executed - times.execute));
  record_.sample_us = static_cast<float>(microseconds(times.sampled - times.executed));
  record_.draft_us = static_cast<float>(microseconds(times.drafted - times.sampled));
  record_.hand_out_us = static_cast<float>(microseconds(Clock::now() - times.drafted));
  count_times(record_);
  publish_stats(finished);
  hand_out();
  record_.hand_out_us = static_cast<float>(microseconds(Clock::now() - times.drafted));
  record_.finished = true;
  ring_.finish(record_);
  step_began_ = 0;
}

void ServingEngine::empty_step() {
  if (run_ahead_.under_way()) run_ahead_.run({}, 0, false);
  if (blocked_ && !scheduler_.waiting_for_tier()) ++counted_.stalls;
  step_began_ = 0;
  SequenceList none;
  publish_stats(none);
}

ServingEngine::StepTimes ServingEngine::run_step(const std::vector<ScheduledRows>& rows) {
  StepTimes times;
  describe_step(rows, description_);
  times.execute = Clock::now();
  float* logits = executor_->execute(description_);
  times.executed = Clock::now();
  take_parts(rows, taker_.take(rows, logits));
  times.sampled = Clock::now();
  for (StepOutput& output : std::span(outputs_).first(output_count_)) output.time = times.sampled;
  draft(rows, microseconds(times.sampled - times.execute) * 1e-6);
  times.drafted = Clock::now();
  return times;
}

ServingEngine::StepTimes ServingEngine::run_round(const std::vector<ScheduledRows>& rows) {
  StepTimes times;
  const bool begins = !run_ahead_.under_way();
  // What waits to be taken or looked at, and another number of drafts, need a step that begins anew.
  const bool ahead = arrivals_.load() == arrivals_taken_ && !scheduler_.wants_a_look() &&
                     (begins || drafts_ == run_ahead_.drafts());
  if (begins) drafts_waiting_ = false;
  times.execute = Clock::now();
  counted_.rounds.ahead += run_ahead_.under_way() ? 1 : 0;
  run_ahead_.run(rows, drafts_, ahead);
  ++counted_.rounds.rounds;
  counted_.rounds.idle_s += run_ahead_.result().idle_seconds;
  times.executed = Clock::now();
  take_parts(rows, taker_.take(rows, run_ahead_));
  take_drafts(rows);
  times.sampled = times.drafted = Clock::now();
  for (StepOutput& output : std::span(outputs_).first(output_count_)) output.time = times.sampled;
  if (policy_) {
    rounds_measured_ = true;
    policy_->executed(run_ahead_.rows(), run_ahead_.result().model_seconds);
    policy_->drafted(run_ahead_.rows() / (1 + run_ahead_.drafts()), run_ahead_.drafts(),
                     run_ahead_.result().drafting_seconds);
  }
  choose_drafts(drafting(rows));
  drafts_waiting_ = drafts_ != run_ahead_.drafts();
  return times;
}

/// The round's guesses, as many as the sequence can still use and the next step is to verify.
void ServingEngine::take_drafts(const std::vector<ScheduledRows>& rows) {
  const int64_t verified =
      run_ahead_.under_way() ? run_ahead_.drafts() : std::min(drafts_, run_ahead_.drafts());
  for (size_t i = 0; i < rows.size(); ++i) {
    Sequence& sequence = *rows[i].sequence;
    sequence.drafts.clear();
    const int64_t wanted = std::min(verified, sequence.tokens_max - sequence.length() - 1);
    for (int64_t n = 0; n < wanted && !sequence.ended; ++n) {
      const TokenId guess = run_ahead_.draft(i, n);
      if (guess < 0) break;
      sequence.drafts.push_back(guess);
    }
  }
}

void ServingEngine::begin_record(const std::vector<ScheduledRows>& rows, Clock::time_point begin) {
  record_ = {};
  record_.begin = begin;
  record_.sequences = static_cast<int32_t>(rows.size());
  record_.running = static_cast<int32_t>(scheduler_.running());
  record_.waiting = static_cast<int32_t>(scheduler_.waiting());
  record_.pages_held = static_cast<int32_t>(scheduler_.pool().held());
  for (const ScheduledRows& part : rows) {
    record_.tokens += static_cast<int32_t>(part.rows);
    record_.sampled += part.samples ? 1 : 0;
    RequestTimes& times = part.sequence->times;
    if (times.started != Clock::time_point()) continue;
    times.started = begin;
    times.cached_tokens = part.sequence->computed;
    const double waited = std::chrono::duration<double>(begin - times.submitted).count();
    queue_seconds_ += 0.1 * (waited - queue_seconds_);
  }
  ring_.begin(record_);
  const std::lock_guard lock(mutex_);
  publish_queue();  // what runs no longer waits, however long the step takes
}

void ServingEngine::count_rows(const ScheduledRows& part, int64_t valid) {
  if (part.sequence->internal) return;
  step_tokens_ += valid;
  counted_.computed_tokens += static_cast<uint64_t>(valid);
}

/// Chooses the number of drafts for `sequences` that go on, unless a choice has not been tried yet.
void ServingEngine::choose_drafts(int64_t sequences) {
  if (policy_ && !drafts_waiting_) drafts_ = policy_->choose(sequences);
}

void ServingEngine::draft(const std::vector<ScheduledRows>& rows, double execute_seconds) {
  const int64_t sequences = drafting(rows);
  choose_drafts(sequences);
  drafts_waiting_ = false;
  // Where rounds run, their times count: a step by way of the host takes longer.
  const bool measured = policy_ && !rounds_measured_ && std::ranges::all_of(rows, &ScheduledRows::decodes);
  if (measured) policy_->executed(static_cast<int64_t>(description_.tokens.size()), execute_seconds);
  const auto begin = Clock::now();
  drafter_.draft(*executor_, sampler_, rows, valid_, description_, drafts_);
  if (measured) policy_->drafted(sequences, drafts_, microseconds(Clock::now() - begin) * 1e-6);
}

void ServingEngine::take_parts(const std::vector<ScheduledRows>& rows, std::span<TakenPart> parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    TakenPart& taken = parts[i];
    const Sequence& sequence = *rows[i].sequence;
    valid_.push_back(taken.valid);
    count_rows(rows[i], taken.valid);
    if (taken.unusable) {
      ++step_failed_;
      ++counted_.corrupted_requests;
    }
    if (!sequence.internal) counted_.generated_tokens += taken.output.tokens.size();
    drafter_.count(taken.drafted, taken.accepted);
    if (policy_ && !sequence.ended && taken.sampled) policy_->verified(taken.drafted, taken.accepted);
    if (sequence.ended) ended_.push_back(sequence.id);
    if (!taken.has_output) continue;
    if (output_count_ == outputs_.size()) outputs_.emplace_back();
    std::swap(outputs_[output_count_++], taken.output);  // the memory goes round
  }
}

StepOutput& ServingEngine::next_output(const Sequence& sequence) {
  if (output_count_ == outputs_.size()) outputs_.emplace_back();
  StepOutput& output = outputs_[output_count_++];
  output.clear();
  output.request = sequence.id;
  output.user = sequence.user;
  output.times = sequence.times;
  return output;
}

void ServingEngine::hand_out() {
  if (output_count_ > 0) sink_(std::span(outputs_).first(output_count_));
}

void ServingEngine::end_all(FinishReason reason, const std::string& error) {
  output_count_ = 0;
  for (const Sequence* sequence : scheduler_.all()) {
    StepOutput& output = next_output(*sequence);
    output.finish = reason;
    output.error = error;
    output.time = Clock::now();
  }
  SequenceList finished;
  for (size_t i = 0; i < output_count_; ++i) scheduler_.remove(outputs_[i].request, finished);
  publish_stats(finished);
  hand_out();
}

/// Under the lock.
void ServingEngine::publish_queue() {
  stats_.running = scheduler_.running();
  stats_.waiting = scheduler_.waiting() + static_cast<int64_t>(submitted_.size());
  waiting_tokens_ = scheduler_.waiting_tokens();
  for (const auto& sequence : submitted_) waiting_tokens_ += sequence->length();
  retry_after_s_ = static_cast<int64_t>(std::clamp(std::ceil(queue_seconds_), 1.0, 60.0));
}

void ServingEngine::publish_stats(SequenceList& finished) {
  const std::lock_guard lock(mutex_);
  finished_.splice(finished_.end(), finished);
  counted_.refused_by_requests = stats_.refused_by_requests;
  counted_.refused_by_tokens = stats_.refused_by_tokens;
  stats_ = counted_;
  publish_queue();
  stats_.pages_total = scheduler_.pool().total();
  stats_.pages_used = scheduler_.pool().held();
  stats_.preemptions = scheduler_.counts().preemptions;
  stats_.prefix_queries_tokens = scheduler_.counts().prefix_queries_tokens;
  stats_.prefix_hits_tokens = scheduler_.counts().prefix_hits_tokens;
  stats_.tier_queries_tokens = scheduler_.counts().tier_queries_tokens;
  stats_.tier_hits_tokens = scheduler_.counts().tier_hits_tokens;
  stats_.drafts = drafter_.counts();
  if (stats_.steps == 0) return;
  const auto steps = static_cast<double>(stats_.steps);
  stats_.step_overhead_us_mean = stats_.own_s * 1e6 / steps;
  stats_.step_sampling_us_mean = stats_.sample_s * 1e6 / steps;
}

void ServingEngine::count_times(const StepRecord& record) {
  ++counted_.steps;
  counted_.own_s += 1e-6 * static_cast<double>(record.schedule_us + record.hand_out_us);
  counted_.execute_s += 1e-6 * static_cast<double>(record.execute_us);
  counted_.sample_s += 1e-6 * static_cast<double>(record.sample_us);
  counted_.draft_s += 1e-6 * static_cast<double>(record.draft_us);
  if (step_tokens_ == 0) return;  // the server's own probe alone
  const auto& bounds = StepSizes::kBounds;
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), step_tokens_) - bounds.begin();
  ++counted_.step_sizes.steps[static_cast<size_t>(bucket)];
  counted_.step_sizes.tokens += static_cast<uint64_t>(step_tokens_);
  step_tokens_ = 0;
}

}  // namespace glint
