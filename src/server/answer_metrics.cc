#include "server/answer_metrics.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace glint {

namespace {

double ms(EngineClock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

OrderedJson share(int64_t part, int64_t whole) {
  return whole == 0 ? OrderedJson() : OrderedJson(static_cast<double>(part) / static_cast<double>(whole));
}

void add_timings(const RequestMeter& meter, OrderedJson& to) {
  for (const char* name : {"time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms",
                           "tokens_per_second"}) {
    to[name] = nullptr;
  }
  const RequestTimes& times = meter.times();
  if (meter.generated() == 0 || times.started == EngineClock::time_point{}) return;
  const double decode = ms(meter.last_token() - meter.first_token());
  to["time_to_first_token_ms"] = ms(meter.first_token() - times.started);
  to["generation_time_ms"] = decode;
  to["queue_time_ms"] = ms(times.started - times.submitted);
  if (meter.generated() > 1) to["mean_itl_ms"] = decode / static_cast<double>(meter.generated() - 1);
  const double inference = ms(meter.last_token() - times.started);
  if (inference > 0) to["tokens_per_second"] = 1e3 * static_cast<double>(meter.generated()) / inference;
}

}  // namespace

DraftMetrics parse_draft_metrics(std::string_view name) {
  if (name == "none") return DraftMetrics::none;
  if (name == "summary") return DraftMetrics::summary;
  if (name == "detailed") return DraftMetrics::detailed;
  fail(ErrorKind::bad_input, "invalid choice: '", name, "' (choose from none, summary, detailed)");
}

void DraftTally::step(const StepOutput& output, DraftMetrics shown) {
  if (shown == DraftMetrics::none || output.drafted == 0) return;
  const auto taken = static_cast<int64_t>(output.tokens.size());
  const int64_t accepted = std::clamp<int64_t>(taken - 1, 0, output.drafted);
  ++steps_;
  drafted_ += output.drafted;
  accepted_ += accepted;
  ++accepted_in_.at(static_cast<size_t>(accepted));
  if (shown != DraftMetrics::detailed) return;
  drafted_by_step_.push_back(output.drafted);
  accepted_by_step_.push_back(accepted);
}

OrderedJson DraftTally::json(DraftMetrics shown, int64_t drafts_max) const {
  OrderedJson json;
  // With the token that a step gives anyway.
  json["mean_acceptance_length"] = share(steps_ + accepted_, steps_);
  json["draft_acceptance_rate"] = share(accepted_, drafted_);
  OrderedJson& histogram = json["acceptance_histogram"] = OrderedJson::object();
  for (size_t j = 0; j < accepted_in_.size(); ++j) {
    if (accepted_in_[j] > 0) histogram[std::to_string(j)] = accepted_in_[j];
  }
  json["num_spec_steps"] = steps_;
  json["num_accepted_draft_tokens"] = accepted_;
  json["num_draft_tokens"] = drafted_;
  json["num_spec_tokens"] = drafts_max;
  if (shown == DraftMetrics::detailed) {
    json["per_step_accepted"] = accepted_by_step_;
    json["per_step_drafted"] = drafted_by_step_;
  }
  return json;
}

OrderedJson answer_metrics(const RequestMeter& meter, const DraftTally& drafts,
                           const AnswerMetricsOptions& options, int64_t drafts_max) {
  OrderedJson json = OrderedJson::object();
  if (options.timings) add_timings(meter, json);
  if (options.drafts != DraftMetrics::none)
    json["speculative_decoding"] = drafts.json(options.drafts, drafts_max);
  return json;
}

}  // namespace glint
