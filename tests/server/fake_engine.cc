#include "fake_engine.h"

#include <utility>

#include "base/error.h"
#include "byte_tokenizer.h"

namespace glint {

namespace {

/// Easy to tell by hand: the token has -0.25, the next ids -0.5, -0.75, ...
void report(TokenId token, int32_t top, Logprobs& out) {
  out.top = top == kAllLogprobs ? 50 : top;
  out.chosen.push_back({token, -0.25F});
  out.ranks.push_back(1);
  for (int32_t i = 0; i < out.top; ++i) {
    out.alternatives.push_back({token + i, -0.25F * static_cast<float>(i + 1)});
  }
}

void report(TokenId token, const std::vector<TokenId>& ids, Logprobs& out) {
  report(token, 0, out);
  out.top = static_cast<int64_t>(ids.size());
  for (const TokenId id : ids) out.alternatives.push_back({id, -0.5F * static_cast<float>(id)});
}

}  // namespace

FakeEngine::FakeEngine(OutputSink sink, std::shared_ptr<const Tokenizer> tokenizer)
    : script([](const EngineRequest& /*request*/) { return script_of("thought</think>answer"); }),
      sink_(std::move(sink)),
      tokenizer_(std::move(tokenizer)) {}

FakeEngine::~FakeEngine() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

uint64_t FakeEngine::submit(EngineRequest request) {
  if (request.prompt.empty()) fail(ErrorKind::bad_input, "the prompt is empty");
  if (static_cast<int64_t>(request.prompt.size()) + 1 > limits_now.max_model_len) {
    fail(ErrorKind::bad_input, "the prompt is too long");
  }
  const std::lock_guard lock(mutex_);
  const uint64_t id = next_id_++;
  submitted_.push_back(request);
  Running running{std::move(request), {}, 0, 0, nullptr, false, {}};
  running.times.submitted = EngineClock::now();
  running.script = script(running.request);
  if (!running.request.sampling.stop.empty()) {
    running.stop = std::make_shared<StopMatcher>(
        tokenizer_, std::make_shared<const StopStrings>(running.request.sampling.stop),
        running.request.sampling.skip_special_tokens, running.request.sampling.min_tokens);
  }
  running_.emplace(id, std::move(running));
  return id;
}

void FakeEngine::abort(uint64_t id) {
  const std::lock_guard lock(mutex_);
  aborted_ += running_.erase(id);
}

void FakeEngine::reset_prefix_cache(CacheReset reset) {
  const std::lock_guard lock(mutex_);
  resets_.push_back(reset);
}

std::vector<CacheReset> FakeEngine::resets() const {
  const std::lock_guard lock(mutex_);
  return resets_;
}

StepOutput FakeEngine::advance(uint64_t id, Running& running) {
  StepOutput output;
  output.request = id;
  output.user = running.request.user;
  output.time = EngineClock::now();
  if (running.times.started == EngineClock::time_point()) running.times.started = output.time;
  output.times = running.times;
  const FakeScript& plan = running.script;
  output.drafted = plan.drafts;
  const bool last = !plan.endless && running.next + 1 >= plan.steps.size();
  if (!plan.steps.empty()) {
    for (const TokenId token : plan.steps[running.next++ % plan.steps.size()]) {
      output.tokens.push_back(token);
      if (running.stop) {
        if (const auto match = running.stop->push(token)) {
          output.finish = FinishReason::stop;
          output.stop_string = *match;
          return output;
        }
      }
      if (++running.tokens >= running.request.sampling.max_tokens) {
        output.finish = FinishReason::length;
        return output;
      }
    }
  }
  if (!last) return output;
  output.finish = plan.finish;
  output.error = plan.error;
  if (plan.finish == FinishReason::stop && plan.stop_token) {
    output.tokens.push_back(*plan.stop_token);
    output.stop_token = plan.stop_token;
  }
  return output;
}

void FakeEngine::add_reports(Running& running, StepOutput& output) const {
  const SamplingParams& sampling = running.request.sampling;
  output.times.cached_tokens = cached_tokens_now;
  if (sampling.prompt_logprobs && !running.reported) {
    for (size_t i = 1; i < running.request.prompt.size(); ++i) {
      report(running.request.prompt[i], *sampling.prompt_logprobs, output.prompt_logprobs);
    }
  }
  running.reported = true;
  if (!sampling.logprobs) return;
  for (const TokenId token : output.tokens) {
    if (!sampling.logprob_token_ids.empty()) {
      report(token, sampling.logprob_token_ids, output.logprobs);
    } else {
      report(token, *sampling.logprobs, output.logprobs);
    }
  }
}

void FakeEngine::step() {
  std::vector<StepOutput> outputs;
  {
    const std::lock_guard lock(mutex_);
    for (auto item = running_.begin(); item != running_.end();) {
      outputs.push_back(advance(item->first, item->second));
      add_reports(item->second, outputs.back());
      item = outputs.back().finish == FinishReason::none ? std::next(item) : running_.erase(item);
    }
  }
  if (!outputs.empty()) sink_(outputs);
}

void FakeEngine::run(std::chrono::microseconds period) {
  thread_ = std::thread([this, period] {
    auto next = std::chrono::steady_clock::now();
    while (!stopping_) {
      step();
      next += period;
      std::this_thread::sleep_until(next);
    }
  });
}

void FakeEngine::die() {
  std::vector<StepOutput> outputs;
  {
    const std::lock_guard lock(mutex_);
    alive_now = false;
    for (const auto& [id, running] : running_) {
      StepOutput output;
      output.request = id;
      output.user = running.request.user;
      output.finish = FinishReason::error;
      output.error = "the engine has died";
      outputs.push_back(std::move(output));
    }
    running_.clear();
  }
  sink_(outputs);
}

std::vector<EngineRequest> FakeEngine::submitted() const {
  const std::lock_guard lock(mutex_);
  return submitted_;
}

size_t FakeEngine::running() const {
  const std::lock_guard lock(mutex_);
  return running_.size();
}

FakeScript script_of(std::string_view text) {
  FakeScript script;
  for (const TokenId id : ids_of(text)) script.steps.push_back({id});
  script.stop_token = kUser;
  return script;
}

FakeScript script_of_pieces(const std::vector<std::string>& pieces) {
  std::string text;
  std::vector<size_t> ends;
  for (const std::string& piece : pieces) {
    text += piece;
    ends.push_back(text.size());
  }
  FakeScript script;
  script.steps.resize(pieces.size());
  script.stop_token = kUser;
  const ByteTokenizer tokenizer;
  size_t at = 0;
  size_t piece = 0;
  for (const TokenId id : ids_of(text)) {
    at += tokenizer.token_bytes(id).size();
    while (at > ends[piece]) ++piece;
    script.steps[piece].push_back(id);
  }
  return script;
}

}  // namespace glint
