// What users' requests did, counted where their steps arrive: on the io threads, not on the engine's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <string_view>

#include "engine/engine.h"
#include "server/histogram.h"

namespace glint {

/// Counters only grow; any thread may read at any time.
struct ServingMetrics {
  ServingMetrics();

  /// Why requests ended, in the order of kFinishNames.
  static constexpr std::array<std::string_view, 4> kFinishNames{"stop", "length", "abort", "error"};
  std::array<std::atomic<uint64_t>, kFinishNames.size()> finished{};
  std::atomic<uint64_t> prompt_tokens{0}, cached_tokens{0}, generation_tokens{0};

  // Seconds. Arrival is the end of the HTTP request: reading, rendering and tokenizing count.
  Histogram time_to_first_token, inter_token_latency, time_per_output_token, e2e_latency;
  Histogram queue_time, inference_time, prefill_time, decode_time;
  // Counts.
  Histogram request_prompt_tokens, request_generation_tokens, max_num_generation_tokens, params_max_tokens,
      params_n, prefill_computed_tokens;
};

/// Follows one choice of an answer. One thread at a time.
class RequestMeter {
 public:
  RequestMeter(ServingMetrics& metrics, EngineClock::time_point arrived, int64_t prompt_tokens,
               int64_t max_tokens)
      : metrics_(&metrics), arrived_(arrived), prompt_tokens_(prompt_tokens), max_tokens_(max_tokens) {}

  /// An output of the engine, whether it ends the request or not.
  void step(const StepOutput& output);
  /// The request ended without an output that says so. Only the first end counts.
  void end(FinishReason reason);
  [[nodiscard]] int64_t generated() const { return generated_; }
  /// Unset before there is a token.
  [[nodiscard]] EngineClock::time_point first_token() const { return first_token_; }
  [[nodiscard]] EngineClock::time_point last_token() const { return last_token_; }
  [[nodiscard]] const RequestTimes& times() const { return times_; }

 private:
  void first(const StepOutput& output);
  void observe_end(const StepOutput& output);

  ServingMetrics* metrics_;
  EngineClock::time_point arrived_, first_token_, last_token_;
  int64_t prompt_tokens_, max_tokens_;
  int64_t generated_ = 0;
  RequestTimes times_;  // as of the last output
  bool ended_ = false;
};

}  // namespace glint
