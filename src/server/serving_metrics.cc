#include "server/serving_metrics.h"

namespace glint {

namespace {

std::vector<double> first_token_bounds() {
  return {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
          1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
}

/// vLLM's begin at 10 ms; a fast decode needs the first five.
std::vector<double> token_bounds() {
  return {.001, .002, .003, .005, .0075, .01, .025, .05, .075, .1, .15, .2,
          .3,   .4,   .5,   .75,  1,     2.5, 5,    7.5, 10,   20, 40,  80};
}

std::vector<double> request_bounds() {
  return {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
}

/// 1, 2, 5, 10, ...: the page leaves out what no request can reach.
std::vector<double> count_bounds() {
  std::vector<double> bounds;
  for (double decade = 1; decade <= 1e6; decade *= 10) {
    for (const double step : {1, 2, 5}) bounds.push_back(step * decade);
  }
  return bounds;
}

double seconds(EngineClock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

ServingMetrics::ServingMetrics()
    : time_to_first_token(first_token_bounds()),
      inter_token_latency(token_bounds()),
      time_per_output_token(token_bounds()),
      e2e_latency(request_bounds()),
      queue_time(request_bounds()),
      inference_time(request_bounds()),
      prefill_time(request_bounds()),
      decode_time(request_bounds()),
      request_prompt_tokens(count_bounds()),
      request_generation_tokens(count_bounds()),
      max_num_generation_tokens(count_bounds()),
      params_max_tokens(count_bounds()),
      params_n({1, 2, 5, 10, 20}),
      prefill_computed_tokens(count_bounds()) {}

void RequestMeter::step(const StepOutput& output) {
  if (ended_) return;
  times_ = output.times;
  if (!output.tokens.empty()) {
    metrics_->generation_tokens.fetch_add(output.tokens.size(), std::memory_order_relaxed);
    if (generated_ == 0) {
      first(output);
    } else {
      metrics_->inter_token_latency.observe(seconds(output.time - last_token_));
    }
    generated_ += static_cast<int64_t>(output.tokens.size());
    last_token_ = output.time;
  }
  if (output.finish == FinishReason::none) return;
  if (output.finish == FinishReason::stop || output.finish == FinishReason::length) observe_end(output);
  end(output.finish);
}

void RequestMeter::first(const StepOutput& output) {
  first_token_ = output.time;
  metrics_->prompt_tokens.fetch_add(static_cast<uint64_t>(prompt_tokens_), std::memory_order_relaxed);
  metrics_->cached_tokens.fetch_add(static_cast<uint64_t>(output.times.cached_tokens),
                                    std::memory_order_relaxed);
  metrics_->time_to_first_token.observe(seconds(output.time - arrived_));
}

void RequestMeter::observe_end(const StepOutput& output) {
  ServingMetrics& m = *metrics_;
  const RequestTimes& times = output.times;
  m.e2e_latency.observe(seconds(last_token_ - arrived_));
  m.queue_time.observe(seconds(times.started - times.submitted));
  m.inference_time.observe(seconds(last_token_ - times.started));
  m.prefill_time.observe(seconds(first_token_ - times.started));
  const double decode = seconds(last_token_ - first_token_);
  m.decode_time.observe(decode);
  if (generated_ > 1) m.time_per_output_token.observe(decode / static_cast<double>(generated_ - 1));
  m.request_prompt_tokens.observe(static_cast<double>(prompt_tokens_));
  m.request_generation_tokens.observe(static_cast<double>(generated_));
  m.params_max_tokens.observe(static_cast<double>(max_tokens_));
  m.prefill_computed_tokens.observe(static_cast<double>(prompt_tokens_ - times.cached_tokens));
}

void RequestMeter::end(FinishReason reason) {
  if (ended_ || reason == FinishReason::none) return;
  ended_ = true;
  size_t index = 0;
  switch (reason) {
    case FinishReason::length:
      index = 1;
      break;
    case FinishReason::abort:
      index = 2;
      break;
    case FinishReason::error:
      index = 3;
      break;
    case FinishReason::stop:
    case FinishReason::none:
      break;
  }
  metrics_->finished[index].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace glint
