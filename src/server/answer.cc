#include "server/answer.h"

#include <algorithm>
#include <utility>

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
  for (size_t index = 0; index < plan_.prompts.size(); ++index) {
    const auto tokens = static_cast<int64_t>(plan_.prompts[index].size());
    for (int i = 0; i < plan_.options.n; ++i) {
      choices_.push_back({OutputStream(model_->tokenizer, model_->tags, plan_.output),
                          RequestMeter(metrics_, plan_.arrived, tokens, plan_.sampling[index].max_tokens),
                          tokens, 0, 0, 0, false, false, false});
    }
  }
  open_ = choices_.size();
}

void Answer::start() {
  exchange_->on_gone([weak = weak_from_this()] {
    if (const auto answer = weak.lock()) answer->release_all(FinishReason::abort);
  });
  try {
    for (size_t i = 0; i < choices_.size(); ++i) submit(choices_[i], i);
  } catch (const std::exception& failure) {
    return fail(error_of(failure));
  }
  plan_.prompts.clear();
  plan_.prompts.shrink_to_fit();
  if (plan_.options.stream) {
    exchange_->start_stream(
        {200, "text/event-stream; charset=utf-8", "", {{"Cache-Control", "no-cache"}}, false});
  }
}

void Answer::submit(Choice& choice, size_t index) {
  const size_t copies = static_cast<size_t>(plan_.options.n);
  const size_t prompt = index / copies;
  const size_t copy = index % copies;
  EngineRequest request;
  if (copy + 1 == copies) {
    request.prompt = std::move(plan_.prompts[prompt]);
  } else {
    request.prompt = plan_.prompts[prompt];
  }
  request.sampling = plan_.sampling[prompt];
  request.cache_salt = plan_.options.cache_salt;
  if (request.sampling.seed) *request.sampling.seed += copy;
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

void Answer::fail(const ApiError& error) {
  if (ended_) return;
  const auto keep_alive = shared_from_this();
  release_all(FinishReason::abort);
  if (!plan_.options.stream) return exchange_->respond(error_response(error));
  // Not yet streaming: the status tells it. Else this is ignored, and the event does.
  exchange_->respond(error_response(error));
  exchange_->send("data: " + error_json(error) + "\n\ndata: [DONE]\n\n");
  exchange_->finish();
}

void Answer::step(size_t index, const StepOutput& output) {
  if (ended_) return;
  Choice& choice = choices_[index];
  choice.meter.step(output);
  if (output.finish == FinishReason::error) {
    choice.done = true;  // the engine has ended it
    router_.remove(exchange_->thread(), choice.user);
    return fail({500, "InternalServerError", output.error, std::nullopt});
  }
  choice.completion_tokens += static_cast<int64_t>(output.tokens.size());
  std::span<const TokenId> tokens = output.tokens;
  if (output.stop_token && !tokens.empty()) tokens = tokens.first(tokens.size() - 1);
  std::vector<OutputDelta> deltas = choice.stream.push(tokens);
  if (output.finish != FinishReason::none) end_choice(choice, output, deltas);
  if (plan_.options.stream) emit(index, deltas, !output.tokens.empty());
  complete_if_done();
}

void Answer::end_choice(Choice& choice, const StepOutput& output, std::vector<OutputDelta>& deltas) {
  for (OutputDelta& delta : choice.stream.finish({end_reason(output.finish), output.stop_token})) {
    deltas.push_back(std::move(delta));
  }
  choice.done = true;
  --open_;
  router_.remove(exchange_->thread(), choice.user);
}

/// One data chunk for what this step made visible, the role chunk in front of the first, the finish chunk
/// behind the last.
void Answer::emit(size_t index, const std::vector<OutputDelta>& deltas, bool tokens_came) {
  Choice& choice = choices_[index];
  const int number = static_cast<int>(index);
  Usage usage{choice.prompt_tokens, 0, 0};
  const Usage* shown = plan_.options.continuous_usage ? &usage : nullptr;
  frame_.clear();
  if (!choice.begun && (tokens_came || choice.done)) {
    choice.begun = true;
    plan_.format->append_role(frame_, number, shown);
  }
  usage = usage_of(choice);
  const OutputChunk chunk = merge_deltas(deltas);
  if (!chunk.empty()) plan_.format->append_delta(frame_, number, chunk, shown);
  if (choice.done) plan_.format->append_finish(frame_, number, choice.stream.finish_info(), shown);
  if (open_ == 0) {
    if (plan_.options.include_usage) plan_.format->append_usage(frame_, total_usage());
    frame_ += "data: [DONE]\n\n";
  }
  exchange_->send(frame_);
}

void Answer::complete_if_done() {
  if (open_ > 0 || ended_) return;
  ended_ = true;
  int64_t most = 0;
  for (const Choice& choice : choices_) most = std::max(most, choice.meter.generated());
  metrics_.max_num_generation_tokens.observe(static_cast<double>(most));
  metrics_.params_n.observe(static_cast<double>(plan_.options.n));
  if (plan_.options.stream) return exchange_->finish();
  std::vector<WholeChoice> whole;
  for (const Choice& choice : choices_)
    whole.push_back({choice.stream.result(), choice.stream.finish_info()});
  exchange_->respond({200, "application/json", plan_.format->whole(whole, total_usage()), {}, false});
}

Usage Answer::usage_of(const Choice& choice) const {
  return {choice.prompt_tokens, choice.completion_tokens, choice.stream.reasoning_tokens()};
}

Usage Answer::total_usage() const {
  Usage total;
  for (size_t i = 0; i < choices_.size(); ++i) {
    // The choices of one prompt share it.
    if (i % static_cast<size_t>(plan_.options.n) == 0) total.prompt_tokens += choices_[i].prompt_tokens;
    total.completion_tokens += choices_[i].completion_tokens;
    total.reasoning_tokens += choices_[i].stream.reasoning_tokens();
  }
  return total;
}

}  // namespace glint
