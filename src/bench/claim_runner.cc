#include "bench/claim_runner.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "engine/engine_factory.h"

namespace glint::bench {

namespace {

constexpr int64_t kTokensMax = 480;  // of an answer, as in tools/nano/evaluate_served.py
constexpr int64_t kContext = 4096;
constexpr int64_t kCacheBytes = int64_t{256} << 20;

EngineOptions engine_options(const RunnerOptions& options) {
  EngineOptions engine;
  engine.dtype = options.dtype;
  engine.threads = options.threads;
  engine.isa = options.isa;
  engine.max_model_len = kContext;
  engine.max_num_seqs = options.sequences;
  engine.num_speculative_tokens = options.drafts;
  engine.kv_cache_memory_bytes = kCacheBytes;
  engine.logprobs_mode = LogprobsMode::raw_logits;
  return engine;
}

std::optional<Json> first_call(const OutputResult& result) {
  if (result.tool_calls.empty()) return std::nullopt;
  const OutputToolCall& call = result.tool_calls.front();
  return Json{{"name", call.name}, {"arguments", parse_json(call.arguments, "the call's arguments")}};
}

}  // namespace

ClaimRunner::ClaimRunner(const std::filesystem::path& folder, const RunnerOptions& options) {
  auto checkpoint = Checkpoint::open(folder);
  model_.tokenizer = Tokenizer::load(folder);
  model_.vocab_size = checkpoint->config().vocab_size;
  if (!checkpoint->config().eos_token_id.empty())
    model_.primary_eos = checkpoint->config().eos_token_id.front();
  model_.chat_template = ChatTemplate::load(folder);
  model_.tags = std::make_shared<const OutputTags>(*model_.tokenizer);
  PlanRequest request = cpu_request(stored_format(*checkpoint), engine_options(options));
  if (options.device.kind == DeviceKind::gpu) request.device = open_device(options.device);
  const MemoryPlan plan = plan_memory(checkpoint->config(), request);
  model_.engine = make_engine(std::move(checkpoint), model_.tokenizer, plan,
                              [this](std::span<StepOutput> outputs) { take(outputs); });
}

ClaimRunner::~ClaimRunner() {
  model_.engine.reset();
}

size_t ClaimRunner::submit(std::vector<TokenId> prompt, SamplingParams sampling) {
  EngineRequest request;
  request.prompt = std::move(prompt);
  request.sampling = std::move(sampling);
  {
    const std::lock_guard lock(mutex_);
    request.user = raw_.size();
    raw_.emplace_back();
  }
  const size_t place = request.user;
  model_.engine->submit(std::move(request));
  return place;
}

void ClaimRunner::take(std::span<StepOutput> outputs) {
  const std::lock_guard lock(mutex_);
  for (const StepOutput& output : outputs) {
    Raw& raw = raw_[output.user];
    raw.tokens.insert(raw.tokens.end(), output.tokens.begin(), output.tokens.end());
    raw.finish = output.finish;
    raw.stop_token = output.stop_token;
    raw.error = output.error;
    for (const TokenLogprob& chosen : output.logprobs.chosen) raw.logits.push_back(chosen.logprob);
    if (output.finish != FinishReason::none) ++ended_;
  }
  changed_.notify_one();
}

std::vector<ClaimRunner::Raw> ClaimRunner::wait_all(const std::function<void(size_t)>& progress) {
  std::unique_lock lock(mutex_);
  while (ended_ < raw_.size()) {
    changed_.wait_for(lock, std::chrono::milliseconds(200));
    const size_t done = ended_;
    lock.unlock();
    progress(done);
    lock.lock();
  }
  for (const Raw& raw : raw_) {
    if (raw.finish == FinishReason::error) fail(ErrorKind::internal, "the engine failed: ", raw.error);
  }
  ended_ = 0;
  return std::exchange(raw_, {});
}

ExampleResult ClaimRunner::read_answer(GenerationPlan& plan, const Raw& raw) const {
  ExampleResult result;
  result.tokens = plan.prompts.front();
  result.tokens.insert(result.tokens.end(), raw.tokens.begin(), raw.tokens.end());
  OutputStream stream(model_.tokenizer, model_.tags, plan.output);
  std::vector<TokenId> shown = raw.tokens;
  if (raw.stop_token && !shown.empty()) shown.pop_back();
  stream.push(shown);
  const bool stopped = raw.finish == FinishReason::stop;
  stream.finish({stopped ? StreamEnd::Reason::stop : StreamEnd::Reason::length, raw.stop_token});
  const OutputResult parsed = stream.result();
  result.answer = {parsed.content.value_or(""), first_call(parsed), stopped};
  result.reasoning_tokens = stream.reasoning_tokens();
  return result;
}

std::vector<ExampleResult> ClaimRunner::answer(const std::vector<ClaimExample>& examples,
                                               const std::function<void(size_t)>& progress) {
  ApiSettings settings;
  settings.model_names = {"model"};
  settings.auto_tool_choice = true;
  std::vector<GenerationPlan> plans;
  for (const ClaimExample& example : examples) {
    plans.push_back(plan_generation(Endpoint::chat, example.request, {}, model_, settings));
    SamplingParams sampling = plans.back().sampling.front();
    sampling.temperature = 0;
    sampling.max_tokens = kTokensMax;
    submit(plans.back().prompts.front(), std::move(sampling));
  }
  const std::vector<Raw> raw = wait_all(progress);
  std::vector<ExampleResult> results;
  for (size_t i = 0; i < raw.size(); ++i) results.push_back(read_answer(plans[i], raw[i]));
  return results;
}

size_t ClaimRunner::equal_texts(const std::vector<GreedyText>& texts,
                                const std::function<void(size_t)>& progress) {
  for (const GreedyText& text : texts) {
    SamplingParams sampling;
    sampling.temperature = 0;
    sampling.max_tokens = text.tokens;
    submit(model_.tokenizer->encode(text.prompt, false), std::move(sampling));
  }
  std::vector<Raw> raw = wait_all(progress);
  size_t equal = 0;
  for (size_t i = 0; i < raw.size(); ++i) equal += equals(raw[i], texts[i]) ? 1 : 0;
  return equal;
}

bool ClaimRunner::equals(Raw& raw, const GreedyText& text) const {
  if (static_cast<int64_t>(raw.tokens.size()) != text.tokens) return false;
  if (raw.stop_token) raw.tokens.pop_back();
  return model_.tokenizer->decode(raw.tokens, false) == text.text;
}

ReferenceOutcome ClaimRunner::compare(const std::vector<ReferenceText>& texts,
                                      const std::function<void(size_t)>& progress) {
  const DraftCounts before = drafts();
  for (const ReferenceText& each : texts) {
    SamplingParams sampling;
    sampling.temperature = 0;
    // Room for all drafts of the last step: it is not to be cut short.
    sampling.max_tokens = each.text.tokens + kSpeculativeTokensMax;
    sampling.logprobs = 0;
    submit(model_.tokenizer->encode(each.text.prompt, false), std::move(sampling));
  }
  const std::vector<Raw> raw = wait_all(progress);
  ReferenceOutcome outcome;
  for (size_t i = 0; i < raw.size(); ++i) {
    const std::vector<float>& want = texts[i].logits;
    if (raw[i].logits.size() != want.size()) outcome.logit_gap = INFINITY;
    const size_t count = std::min(raw[i].logits.size(), want.size());
    for (size_t t = 0; t < count; ++t) {
      // fmax would lose a NaN.
      const double gap = std::abs(static_cast<double>(raw[i].logits[t]) - static_cast<double>(want[t]));
      if (!(gap <= outcome.logit_gap)) outcome.logit_gap = std::isnan(gap) ? INFINITY : gap;
    }
    outcome.logits += static_cast<int64_t>(count);
  }
  const DraftCounts after = drafts();
  outcome.steps = static_cast<int64_t>(after.drafts - before.drafts);
  return outcome;
}

}  // namespace glint::bench
