#include "server/answer.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace glint {

namespace {

constexpr int kThreadShift = 48;  // a user id is io thread | serial

StreamEnd::Reason end_reason(FinishReason reason) {
  switch (reason) {
    case FinishReason::length:
      return StreamEnd::Reason::length;
    case FinishReason::abort:
      return StreamEnd::Reason::abort;
    case FinishReason::error:
      return StreamEnd::Reason::error;
    case FinishReason::stop:
    case FinishReason::none:
      break;
  }
  return StreamEnd::Reason::stop;
}

}  // namespace

// ---------------------------------------------------------------------------------------------------- router

StepRouter::StepRouter(int threads, Post post, const MakeWaker& make_waker)
    : tables_(static_cast<size_t>(threads)), post_(std::move(post)) {
  for (int thread = 0; thread < threads; ++thread) {
    inboxes_.push_back(std::make_unique<Inbox>());
    inboxes_.back()->wake = make_waker(thread, [this, thread] { hand_out(thread); });
  }
}

uint64_t StepRouter::add(int thread, std::shared_ptr<StepReceiver> receiver, size_t choice) {
  Table& table = tables_[static_cast<size_t>(thread)];
  const uint64_t user = (static_cast<uint64_t>(thread) << kThreadShift) | table.next++;
  table.targets.emplace(user, Target{std::move(receiver), choice});
  return user;
}

void StepRouter::remove(int thread, uint64_t user) {
  tables_[static_cast<size_t>(thread)].targets.erase(user);
}

void StepRouter::Batch::swap_in(StepOutput& output) {
  if (count == outputs.size()) outputs.emplace_back();
  std::swap(outputs[count++], output);
}

void StepRouter::deliver(std::span<StepOutput> outputs) {
  for (StepOutput& output : outputs) {
    Inbox& inbox = *inboxes_.at(output.user >> kThreadShift);
    const std::lock_guard lock(inbox.mutex);
    inbox.arrived.swap_in(output);
    inbox.fresh = true;
  }
  for (const auto& inbox : inboxes_) {
    if (std::exchange(inbox->fresh, false)) inbox->wake();
  }
}

void StepRouter::hand_out(int thread) {
  Inbox& inbox = *inboxes_[static_cast<size_t>(thread)];
  {
    const std::lock_guard lock(inbox.mutex);
    std::swap(inbox.arrived, inbox.taken);
  }
  auto& targets = tables_[static_cast<size_t>(thread)].targets;
  const size_t count = std::exchange(inbox.taken.count, 0);
  for (size_t i = 0; i < count; ++i) {
    const auto found = targets.find(inbox.taken.outputs[i].user);
    if (found == targets.end()) continue;  // its client has left
    const Target target = found->second;   // a copy: step() may remove it
    try {
      target.receiver->step(target.choice, inbox.taken.outputs[i]);
    } catch (const std::exception& failure) {
      target.receiver->fail(error_of(failure));  // its own request's trouble, not its neighbours'
    }
  }
}

void StepRouter::fail_all(const ApiError& error) {
  for (size_t thread = 0; thread < tables_.size(); ++thread) {
    post_(static_cast<int>(thread), [this, thread, error] {
      std::vector<std::shared_ptr<StepReceiver>> receivers;
      for (const auto& [user, target] : tables_[thread].targets) receivers.push_back(target.receiver);
      for (const auto& receiver : receivers) receiver->fail(error);
    });
  }
}

// ---------------------------------------------------------------------------------------------------- answer

Answer::Answer(GenerationPlan plan, std::shared_ptr<const ServedModel> model,
               std::shared_ptr<HttpExchange> exchange, StepRouter& router, ServingMetrics& metrics)
    : plan_(std::move(plan)),
      model_(std::move(model)),
      exchange_(std::move(exchange)),
      router_(router),
      metrics_(metrics) {
  const LogprobsStyle style{plan_.endpoint, plan_.options.tokens_as_ids, plan_.output.skip_special_tokens};
  for (size_t i = 0; i < plan_.prompts.size(); ++i) {
    const std::vector<TokenId>& prompt = plan_.prompts[i];
    const auto tokens = static_cast<int64_t>(prompt.size());
    prompts_.push_back({prompt.front(), {}, plan_.options.echo ? plan_.echoes[i] : std::string(), {}});
    if (plan_.options.return_token_ids) prompts_.back().report.token_ids = prompt;
    if (plan_.options.return_prompt_text)
      prompts_.back().report.text = model_->tokenizer->decode(prompt, false);
    for (size_t copy = 0; copy < copies(); ++copy) {
      choices_.push_back(
          {.stream = OutputStream(model_->tokenizer, model_->tags, plan_.output),
           .meter = RequestMeter(metrics_, plan_.arrived, tokens, plan_.sampling[i].max_tokens),
           .writer = LogprobsWriter(model_->tokenizer, style),
           .prompt_tokens = tokens,
           .logprobs = nullptr});
    }
  }
  open_ = choices_.size();
}

void Answer::start() {
  exchange_->on_gone([weak = weak_from_this()] {
    const auto answer = weak.lock();
    if (!answer) return;
    answer->report("the client has left");
    answer->release_all(FinishReason::abort);
  });
  try {
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (!waits(i)) submit(choices_[i], i);
    }
  } catch (const std::exception& failure) {
    return fail(error_of(failure));
  }
  if (plan_.options.stream) {
    HttpResponse head{200, "text/event-stream; charset=utf-8", "", plan_.format->headers(), false};
    head.headers.push_back({"Cache-Control", "no-cache"});
    exchange_->start_stream(std::move(head));
  }
}

bool Answer::waits(size_t index) const {
  if (leads(index)) return false;
  const int64_t shared = model_->engine->limits().shared_prefix_tokens;
  const bool computes_the_same = shared > 0 && choices_[index].prompt_tokens > shared;
  // What is reported on the prompt is the leader's; it must be there before a choice begins.
  return computes_the_same || plan_.sampling[index / copies()].prompt_logprobs.has_value();
}

bool Answer::followers_wait(size_t index) const {
  return leads(index) && copies() > 1 && !aborted_ && !choices_[index + copies() - 1].submitted;
}

void Answer::submit_followers(size_t leader) {
  for (size_t i = leader + 1; i < leader + copies(); ++i) {
    if (!choices_[i].submitted) submit(choices_[i], i);
  }
}

void Answer::submit(Choice& choice, size_t index) {
  const size_t prompt = index / copies();
  const size_t copy = index % copies();
  EngineRequest request;
  if (copy + 1 == copies()) {
    request.prompt = std::move(plan_.prompts[prompt]);
  } else {
    request.prompt = plan_.prompts[prompt];
  }
  request.sampling = plan_.sampling[prompt];
  request.cache_salt = plan_.options.cache_salt;
  request.priority = plan_.options.priority;
  request.admitted = index > 0;
  if (plan_.make_constraint) request.sampling.constraint = plan_.make_constraint();
  if (request.sampling.seed) *request.sampling.seed += copy;
  if (!leads(index)) request.sampling.prompt_logprobs.reset();  // they are the leader's
  // Known to the router before the engine can answer.
  choice.user = router_.add(exchange_->thread(), shared_from_this(), index);
  choice.submitted = true;
  request.user = choice.user;
  try {
    choice.engine_id = model_->engine->submit(std::move(request));
  } catch (...) {
    choice.done = true;
    router_.remove(exchange_->thread(), choice.user);
    throw;
  }
}

void Answer::report(const std::string& error) {
  if (!plan_.trace.exporter || ended_) return;
  const RequestMeter& first = choices_.front().meter;
  RequestFacts facts;
  facts.id = plan_.id;
  facts.model = plan_.model;
  facts.arrived = plan_.arrived;
  facts.submitted = first.times().submitted;
  facts.started = first.times().started;
  facts.first_token = first.first_token();
  facts.max_tokens = plan_.sampling.front().max_tokens;
  facts.temperature = plan_.sampling.front().temperature;
  facts.top_p = plan_.sampling.front().top_p;
  facts.n = plan_.options.n;
  facts.sequences = static_cast<int64_t>(choices_.size());
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (leads(i)) facts.prompt_tokens += choices_[i].prompt_tokens;
    facts.completion_tokens += choices_[i].completion_tokens;
    facts.last_token = std::max(facts.last_token, choices_[i].meter.last_token());
  }
  facts.error = error;
  end_trace(plan_.trace, facts);
}

/// Frees everything that still runs in the engine. Afterwards no step arrives.
void Answer::release_all(FinishReason reason) {
  ended_ = true;
  for (Choice& choice : choices_) {
    if (!choice.submitted || choice.done) continue;
    choice.done = true;
    choice.meter.end(reason);
    model_->engine->abort(choice.engine_id);
    router_.remove(exchange_->thread(), choice.user);
  }
}

void Answer::abort() {
  const auto keep_alive = shared_from_this();
  // Choices that wait for their leader have nothing: they must not begin when it ends.
  aborted_ = true;
  for (size_t i = 0; i < choices_.size() && !ended_; ++i) {
    if (choices_[i].done) continue;
    if (choices_[i].submitted) model_->engine->abort(choices_[i].engine_id);
    StepOutput end;
    end.request = choices_[i].engine_id;
    end.finish = FinishReason::abort;
    end.time = EngineClock::now();
    end.times.cached_tokens = choices_[i].cached_tokens;
    step(i, end);
  }
}

void Answer::fail(const ApiError& error) {
  if (ended_) return;
  const auto keep_alive = shared_from_this();
  report(error.message);
  release_all(FinishReason::abort);
  // Not yet streaming: the status tells it. Else this is ignored, and the event does.
  exchange_->respond(plan_.format->refusal(error));
  if (!plan_.options.stream) return;
  frame_.clear();
  plan_.format->append_error(frame_, error);
  exchange_->send(frame_);
  exchange_->finish();
}

void Answer::step(size_t index, const StepOutput& output) {
  if (ended_) return;
  if (!std::exchange(started_, true)) plan_.format->started();
  Choice& choice = choices_[index];
  choice.meter.step(output);
  choice.drafts.step(output, plan_.answer_metrics.drafts);
  if (output.finish == FinishReason::error) {
    choice.done = true;  // the engine has ended it
    router_.remove(exchange_->thread(), choice.user);
    if (output.contradiction) {
      return fail(plan_.names.in_own_words({400, "BadRequestError", output.error, std::nullopt}));
    }
    log_error("request ", plan_.id, " failed: ", output.error);
    return fail({500, "InternalServerError", output.error, std::nullopt});
  }
  choice.cached_tokens = output.times.cached_tokens;
  if (followers_wait(index)) {
    if (output.finish != FinishReason::none && output.tokens.empty()) {
      choice.done = true;  // the engine ends it before it has begun: nobody is left to lead
      router_.remove(exchange_->thread(), choice.user);
      return fail(http_error(503, "the server is shutting down"));
    }
    try {
      if (!output.tokens.empty()) submit_followers(index);
    } catch (const std::exception& failure) {
      return fail(error_of(failure));
    }
  }
  OrderedJson logprobs = take_logprobs(index, output);
  std::span<const TokenId> tokens = output.tokens;
  if (plan_.options.score_only) tokens = {};
  choice.completion_tokens += static_cast<int64_t>(tokens.size());
  if (output.stop_token && !tokens.empty()) tokens = tokens.first(tokens.size() - 1);
  std::vector<OutputDelta> deltas = choice.stream.push(tokens);
  if (output.finish != FinishReason::none) end_choice(choice, output, deltas);
  collect_ids(choice, output);
  if (plan_.options.stream) {
    stream_step(index, std::move(deltas), std::move(logprobs), static_cast<int64_t>(output.tokens.size()));
  } else {
    append_logprobs(choice.logprobs, std::move(logprobs));
  }
  complete_if_done();
}

OrderedJson Answer::take_logprobs(size_t index, const StepOutput& output) {
  if (!output.prompt_logprobs.empty()) {
    Logprobs& all = prompts_[index / copies()].logprobs;
    const Logprobs& next = output.prompt_logprobs;
    all.top = next.top;
    all.chosen.insert(all.chosen.end(), next.chosen.begin(), next.chosen.end());
    all.ranks.insert(all.ranks.end(), next.ranks.begin(), next.ranks.end());
    all.alternatives.insert(all.alternatives.end(), next.alternatives.begin(), next.alternatives.end());
  }
  if (output.tokens.empty()) return nullptr;
  OrderedJson shown;
  Choice& choice = choices_[index];
  if (!choice.begun && plan_.options.echo_logprobs) {
    OrderedJson echoed = echo_logprobs(index);
    if (plan_.options.stream) {
      choice.logprobs = std::move(echoed);  // for the echo's own chunk
    } else {
      choice.begun = true;
      shown = std::move(echoed);
    }
  }
  if (output.logprobs.empty() || plan_.options.score_only) return shown;
  // Ids that the request named are all shown.
  const bool named = !plan_.options.sampling.logprob_token_ids.empty();
  const int32_t top = named ? kAllLogprobs : plan_.options.sampling.logprobs.value_or(0);
  append_logprobs(shown, choice.writer.write(output.logprobs, top));
  return shown;
}

OrderedJson Answer::echo_logprobs(size_t index) {
  const Prompt& prompt = prompts_[index / copies()];
  LogprobsWriter& writer = choices_[index].writer;
  OrderedJson echoed = writer.write_unknown(prompt.first);
  append_logprobs(echoed, writer.write(prompt.logprobs, plan_.options.sampling.logprobs.value_or(0)));
  return echoed;
}

void Answer::end_choice(Choice& choice, const StepOutput& output, std::vector<OutputDelta>& deltas) {
  for (OutputDelta& delta : choice.stream.finish({end_reason(output.finish), output.stop_token})) {
    deltas.push_back(std::move(delta));
  }
  choice.done = true;
  --open_;
  if (choice.submitted) router_.remove(exchange_->thread(), choice.user);
}

void Answer::collect_ids(Choice& choice, const StepOutput& output) const {
  // Ids would tell a reasoning that is not to be told.
  if (!plan_.options.return_token_ids || plan_.options.score_only || !plan_.output.parser.include_reasoning)
    return;
  auto& ids = plan_.options.stream ? choice.held.token_ids : choice.token_ids;
  ids.insert(ids.end(), output.tokens.begin(), output.tokens.end());
}

void Answer::stream_step(size_t index, std::vector<OutputDelta> deltas, OrderedJson logprobs,
                         int64_t tokens) {
  Choice& choice = choices_[index];
  Held& held = choice.held;
  if (held.deltas.empty()) {
    held.deltas = std::move(deltas);
  } else {
    for (OutputDelta& delta : deltas) held.deltas.push_back(std::move(delta));
  }
  append_logprobs(held.logprobs, std::move(logprobs));
  held.tokens += tokens;
  const bool is_due = !choice.begun || held.tokens >= plan_.options.stream_interval;
  if (choice.done || (held.tokens > 0 && is_due)) emit(index);
}

/// One data chunk for what has become visible, the role chunk and the echo in front of the first, the finish
/// chunk behind the last.
void Answer::emit(size_t index) {
  Choice& choice = choices_[index];
  const Prompt& prompt = prompts_[index / copies()];
  const int number = static_cast<int>(index);
  Usage usage = usage_of(choice);
  usage.completion_tokens = usage.reasoning_tokens = 0;
  const bool shows_usage = plan_.options.continuous_usage || plan_.format->wants_usage();
  const Usage* shown = shows_usage ? &usage : nullptr;
  frame_.clear();
  if (!choice.begun) {
    choice.begun = true;
    plan_.format->append_role(frame_, number, prompt.report, shown);
    OutputDelta echo;
    echo.text = prompt.echo;
    if (!echo.text.empty())
      plan_.format->append_step(frame_, number, {{&echo, 1}, choice.logprobs, {}}, shown);
    choice.logprobs = nullptr;
  }
  usage = usage_of(choice);
  const Held held = std::exchange(choice.held, {});
  plan_.format->append_step(frame_, number, {held.deltas, held.logprobs, held.token_ids}, shown);
  if (choice.done) plan_.format->append_finish(frame_, number, choice.stream.finish_info(), shown);
  if (open_ == 0) {
    if (plan_.options.include_usage) plan_.format->append_usage(frame_, total_usage());
    plan_.format->append_end(frame_);
  }
  exchange_->send(frame_);
}

WholeChoice Answer::whole_choice(size_t index) {
  Choice& choice = choices_[index];
  const Prompt& prompt = prompts_[index / copies()];
  WholeChoice whole;
  whole.result = choice.stream.result();
  whole.finish = choice.stream.finish_info();
  whole.logprobs = std::move(choice.logprobs);
  whole.prompt = prompt.report;
  if (plan_.options.return_token_ids && plan_.output.parser.include_reasoning) {
    whole.token_ids = std::move(choice.token_ids);
  }
  if (!prompt.echo.empty()) whole.result.content = prompt.echo + whole.result.content.value_or("");
  if (plan_.options.report_prompt_logprobs) {
    whole.prompt_logprobs =
        prompt_logprobs_json(prompt.logprobs, plan_.options.prompt_logprobs, *model_->tokenizer);
  }
  return whole;
}

void Answer::complete_if_done() {
  if (open_ > 0 || ended_) return;
  report("");
  ended_ = true;
  int64_t most = 0;
  for (const Choice& choice : choices_) most = std::max(most, choice.meter.generated());
  metrics_.max_num_generation_tokens.observe(static_cast<double>(most));
  metrics_.params_n.observe(static_cast<double>(plan_.options.n));
  if (plan_.options.stream) return exchange_->finish();
  std::vector<WholeChoice> whole;
  for (size_t i = 0; i < choices_.size(); ++i) whole.push_back(whole_choice(i));
  exchange_->respond(
      {200, "application/json", plan_.format->whole(whole, total_usage()), plan_.format->headers(), false});
}

Usage Answer::usage_of(const Choice& choice) const {
  Usage usage;
  usage.prompt_tokens = choice.prompt_tokens;
  usage.completion_tokens = choice.completion_tokens;
  usage.reasoning_tokens = choice.stream.reasoning_tokens();
  if (plan_.prompt_tokens_details) usage.cached_tokens = choice.cached_tokens;
  if (choice.done) add_metrics(usage);
  return usage;
}

/// Times and drafts are those of one sequence: an answer with several has none.
void Answer::add_metrics(Usage& usage) const {
  if (!plan_.answer_metrics.any()) return;
  usage.metrics = nullptr;
  if (choices_.size() > 1) return;
  const Choice& choice = choices_.front();
  usage.metrics = answer_metrics(choice.meter, choice.drafts, plan_.answer_metrics,
                                 model_->engine->limits().num_speculative_tokens);
}

Usage Answer::total_usage() const {
  Usage total;
  if (plan_.prompt_tokens_details) total.cached_tokens = 0;
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (leads(i)) {  // the choices of one prompt share it
      total.prompt_tokens += choices_[i].prompt_tokens;
      if (total.cached_tokens) *total.cached_tokens += choices_[i].cached_tokens;
    }
    total.completion_tokens += choices_[i].completion_tokens;
    total.reasoning_tokens += choices_[i].stream.reasoning_tokens();
  }
  add_metrics(total);
  return total;
}

}  // namespace glint
