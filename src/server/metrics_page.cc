#include "server/metrics_page.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "base/error.h"
#include "ops/types.h"
#include "server/metric_text.h"

namespace glint {

namespace {

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

double pages_share(const EngineStats& stats) {
  return ratio(static_cast<double>(stats.pages_used), static_cast<double>(stats.pages_total));
}

void counter(MetricText& page, std::string_view name, std::string_view help, uint64_t value) {
  page.family(name, "counter", help);
  page.sample({}, value);
}

void gauge(MetricText& page, std::string_view name, std::string_view help, double value) {
  page.family(name, "gauge", help);
  page.sample({}, value);
}

void histogram(MetricText& page, std::string_view name, std::string_view help, const Histogram& values,
               double largest) {
  page.family(name, "histogram", help);
  page.histogram(values.bounds(), values.counts(), values.sum(), largest);
}

void engine_gauges(MetricText& page, const EngineStats& stats, const EngineLimits& limits) {
  gauge(page, "vllm:num_requests_running", "Requests in the running batch.",
        static_cast<double>(stats.running));
  gauge(page, "vllm:num_requests_waiting", "Requests that wait.", static_cast<double>(stats.waiting));
  page.family("vllm:num_requests_waiting_by_reason", "gauge", "Requests that wait, by what for.");
  page.sample({{"reason", "capacity"}}, static_cast<double>(stats.waiting));
  page.sample({{"reason", "deferred"}}, 0.0);
  gauge(page, "vllm:kv_cache_usage_perc", "Share of the cache that requests hold, 0 to 1.",
        pages_share(stats));
  page.family("vllm:engine_sleep_state", "gauge", "This engine is always awake.");
  page.sample({{"sleep_state", "awake"}}, 1.0);
  page.sample({{"sleep_state", "weights_offloaded"}}, 0.0);
  page.sample({{"sleep_state", "discard_all"}}, 0.0);
  page.family("vllm:cache_config_info", "gauge", "The cache's configuration as labels.");
  const std::string block = std::to_string(ops::kPageTokens);
  const std::string blocks = std::to_string(stats.pages_total);
  page.sample({{"block_size", block},
               {"num_gpu_blocks", blocks},
               {"enable_prefix_caching", limits.prefix_caching ? "True" : "False"}},
              1.0);
}

void engine_counters(MetricText& page, const EngineStats& stats) {
  counter(page, "vllm:num_preemptions_total", "Requests that lost their pages and were computed again.",
          stats.preemptions);
  counter(page, "vllm:prefix_cache_queries_total", "Tokens looked up in the prefix cache.",
          stats.prefix_queries_tokens);
  counter(page, "vllm:prefix_cache_hits_total", "Tokens found in the prefix cache.",
          stats.prefix_hits_tokens);
  counter(page, "vllm:corrupted_requests_total", "Requests for which the model gave no usable logits.",
          stats.corrupted_requests);
  page.family("vllm:admission_rejections_total", "counter", "Requests refused because the queue was full.");
  page.sample({{"reason", "max_queued_requests"}}, stats.refused_by_requests);
  page.sample({{"reason", "max_queued_tokens"}}, stats.refused_by_tokens);
  page.family("vllm:iteration_tokens_total", "histogram", "Tokens of a step.");
  std::array<double, StepSizes::kBounds.size()> bounds{};
  for (size_t i = 0; i < bounds.size(); ++i) bounds[i] = static_cast<double>(StepSizes::kBounds[i]);
  page.histogram(bounds, stats.step_sizes.steps, static_cast<double>(stats.step_sizes.tokens), bounds.back());
}

void tier_metrics(MetricText& page, const EngineStats& stats) {
  if (stats.tier.bytes_max == 0) return;
  counter(page, "vllm:external_prefix_cache_queries_total", "Tokens looked up in the disk tier.",
          stats.tier_queries_tokens);
  counter(page, "vllm:external_prefix_cache_hits_total", "Tokens restored from the disk tier.",
          stats.tier_hits_tokens);
  counter(page, "vllm:kv_offload_store_bytes_total", "Bytes written to the disk tier.",
          stats.tier.stored_bytes);
  counter(page, "vllm:kv_offload_load_bytes_total", "Bytes read from the disk tier.",
          stats.tier.loaded_bytes);
  page.family("glint:kv_tier_bytes", "gauge", "Bytes that a tier of the cache holds.");
  page.sample({{"tier", "disk"}}, static_cast<double>(stats.tier.bytes));
}

void draft_counters(MetricText& page, const DraftCounts& drafts, int64_t positions) {
  if (positions == 0) return;
  counter(page, "vllm:spec_decode_num_drafts_total", "Rounds of drafts that were verified.", drafts.drafts);
  counter(page, "vllm:spec_decode_num_draft_tokens_total", "Draft tokens.", drafts.draft_tokens);
  counter(page, "vllm:spec_decode_num_accepted_tokens_total", "Draft tokens that were accepted.",
          drafts.accepted_tokens);
  page.family("vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter",
              "Rounds in which this position and all before it were accepted.");
  for (size_t i = 0; i < static_cast<size_t>(positions); ++i) {
    page.sample({{"position", std::to_string(i)}}, drafts.accepted_at[i]);
  }
}

void request_counters(MetricText& page, const ServingMetrics& m) {
  const uint64_t prompt = m.prompt_tokens;
  const uint64_t cached = std::min<uint64_t>(prompt, m.cached_tokens);
  counter(page, "vllm:prompt_tokens_total", "Prompt tokens of requests that got their first token.", prompt);
  counter(page, "vllm:generation_tokens_total", "Generated tokens.", m.generation_tokens);
  counter(page, "vllm:prompt_tokens_cached_total", "Prompt tokens that came from the prefix cache.", cached);
  page.family("vllm:prompt_tokens_by_source_total", "counter", "Prompt tokens by where they came from.");
  page.sample({{"source", "local_compute"}}, prompt - cached);
  page.sample({{"source", "local_cache_hit"}}, cached);
  page.sample({{"source", "external_kv_transfer"}}, uint64_t{0});
  page.family("vllm:request_success_total", "counter", "Requests that ended, by why.");
  for (size_t i = 0; i < ServingMetrics::kFinishNames.size(); ++i) {
    page.sample({{"finished_reason", ServingMetrics::kFinishNames[i]}}, m.finished[i].load());
  }
}

void request_histograms(MetricText& page, const ServingMetrics& m, double longest) {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  const auto time = [&](std::string_view name, std::string_view help, const Histogram& values) {
    histogram(page, name, help, values, kAll);
  };
  const auto count = [&](std::string_view name, std::string_view help, const Histogram& values) {
    histogram(page, name, help, values, longest);
  };
  time("vllm:time_to_first_token_seconds", "Arrival to first token.", m.time_to_first_token);
  time("vllm:inter_token_latency_seconds", "Between two steps of a request.", m.inter_token_latency);
  time("vllm:time_per_output_token_seconds", "The same under its older name.", m.inter_token_latency);
  time("vllm:request_time_per_output_token_seconds", "Mean time per token after the first, by request.",
       m.time_per_output_token);
  time("vllm:e2e_request_latency_seconds", "Arrival to last token.", m.e2e_latency);
  time("vllm:request_queue_time_seconds", "Submission to first scheduled rows.", m.queue_time);
  time("vllm:request_inference_time_seconds", "First scheduled rows to last token.", m.inference_time);
  time("vllm:request_prefill_time_seconds", "First scheduled rows to first token.", m.prefill_time);
  time("vllm:request_decode_time_seconds", "First token to last token.", m.decode_time);
  count("vllm:request_prompt_tokens", "Prompt tokens of a request.", m.request_prompt_tokens);
  count("vllm:request_generation_tokens", "Generated tokens of a request.", m.request_generation_tokens);
  count("vllm:request_max_num_generation_tokens", "The most tokens among the choices of a request.",
        m.max_num_generation_tokens);
  count("vllm:request_params_max_tokens", "max_tokens of a request.", m.params_max_tokens);
  count("vllm:request_params_n", "n of a request.", m.params_n);
  count("vllm:request_prefill_kv_computed_tokens",
        "Prompt tokens that were computed, not found in the cache.", m.prefill_computed_tokens);
}

void sglang_metrics(MetricText& page, const MetricsState& state) {
  const ServingMetrics& m = *state.requests;
  constexpr double kAll = std::numeric_limits<double>::infinity();
  counter(page, "sglang:prompt_tokens_total", "Prompt tokens.", m.prompt_tokens);
  counter(page, "sglang:generation_tokens_total", "Generated tokens.", m.generation_tokens);
  histogram(page, "sglang:time_to_first_token_seconds", "Arrival to first token.", m.time_to_first_token,
            kAll);
  histogram(page, "sglang:e2e_request_latency_seconds", "Arrival to last token.", m.e2e_latency, kAll);
  histogram(page, "sglang:time_per_output_token_seconds", "Mean time per token after the first.",
            m.time_per_output_token, kAll);
  if (!state.engine) return;
  const EngineStats& stats = *state.engine;
  gauge(page, "sglang:num_running_reqs", "Running requests.", static_cast<double>(stats.running));
  gauge(page, "sglang:num_queue_reqs", "Waiting requests.", static_cast<double>(stats.waiting));
  gauge(page, "sglang:num_used_tokens", "Tokens of the cache that requests hold.",
        static_cast<double>(stats.pages_used * ops::kPageTokens));
  gauge(page, "sglang:token_usage", "Share of the cache that requests hold.", pages_share(stats));
  gauge(
      page, "sglang:cache_hit_rate", "Share of looked-up prompt tokens that the prefix cache had.",
      ratio(static_cast<double>(stats.prefix_hits_tokens), static_cast<double>(stats.prefix_queries_tokens)));
  gauge(page, "sglang:gen_throughput", "Generated tokens a second over the last log interval.",
        state.generation_tokens_per_s);
}

void expert_load(MetricText& page, const std::vector<double>& by_layer) {
  page.family("glint:expert_load", "gauge",
              "Choices of a layer's busiest expert over the mean of its experts, over the recent tokens.");
  for (size_t layer = 0; layer < by_layer.size(); ++layer) {
    if (by_layer[layer] > 0) page.sample({{"layer", std::to_string(layer)}}, by_layer[layer]);
  }
}

void own_metrics(MetricText& page, const MetricsState& state) {
  counter(page, "glint:clients_gone_total", "Clients that left before their answer was complete.",
          state.http.clients_gone);
  page.family("glint:streams_ended_total", "counter",
              "Streams that the server ended because of their reader.");
  page.sample({{"reason", "backlog_full"}}, state.http.ended_backlog);
  page.sample({{"reason", "write_stalled"}}, state.http.ended_stalled);
  gauge(page, "glint:connections", "Open connections.", static_cast<double>(state.http.connections));
  gauge(page, "glint:open_answers", "HTTP requests whose answer is not complete.",
        static_cast<double>(state.http.open_answers));
  counter(page, "glint:steps_over_limit_total", "Steps that took longer than --watchdog-timeout.",
          state.steps_over_limit);
  if (state.traces) {
    page.family("glint:trace_spans_total", "counter", "Spans of requests, by what became of them.");
    page.sample({{"result", "exported"}}, state.traces->exported);
    page.sample({{"result", "dropped_queue_full"}}, state.traces->dropped_queue_full);
    page.sample({{"result", "dropped_failed"}}, state.traces->dropped_failed);
  }
  if (!state.engine) return;
  const EngineStats& stats = *state.engine;
  counter(page, "glint:scheduler_stalls_total", "Steps without a row although requests waited.",
          stats.stalls);
  counter(page, "glint:decode_rounds_total",
          "Steps that the device took from end to end, sampling and drafting included.", stats.rounds.rounds);
  counter(page, "glint:decode_rounds_ahead_total",
          "Of those, started before the results of the one before were there.", stats.rounds.ahead);
  page.family("glint:device_idle_seconds_total", "counter",
              "Time that the device waited between a round and the one before.");
  page.sample({}, stats.rounds.idle_s);
  expert_load(page, state.expert_load);
  page.family("glint:step_seconds", "summary", "Time of steps by what it went to.");
  page.summary({{"phase", "execute"}}, stats.execute_s, stats.steps);
  page.summary({{"phase", "sample"}}, stats.sample_s, stats.steps);
  page.summary({{"phase", "draft"}}, stats.draft_s, stats.steps);
  page.summary({{"phase", "engine"}}, stats.own_s, stats.steps);
}

}  // namespace

MetricsCompat parse_metrics_compat(std::string_view text) {
  MetricsCompat compat{.vllm = false, .sglang = false};
  while (!text.empty()) {
    const std::string_view name = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), name.size() + 1));
    if (name == "vllm") {
      compat.vllm = true;
    } else if (name == "sglang") {
      compat.sglang = true;
    } else {
      fail(ErrorKind::bad_input, "argument --metrics-compat: invalid choice: '", name,
           "' (choose from vllm, sglang, or both with a comma)");
    }
  }
  return compat;
}

std::string metrics_page(const MetricsState& state, const MetricsCompat& compat) {
  MetricText page({{"model_name", state.model_name}, {"engine", "0"}});
  if (compat.vllm) {
    if (state.engine) {
      engine_gauges(page, *state.engine, state.limits);
      engine_counters(page, *state.engine);
      tier_metrics(page, *state.engine);
      draft_counters(page, state.engine->drafts, state.limits.num_speculative_tokens);
    }
    request_counters(page, *state.requests);
    const double longest = state.limits.max_model_len > 0 ? static_cast<double>(state.limits.max_model_len)
                                                          : std::numeric_limits<double>::infinity();
    request_histograms(page, *state.requests, longest);
  }
  own_metrics(page, state);
  std::string text = page.text();
  if (compat.sglang) {
    MetricText sglang({{"model_name", state.model_name}, {"engine_type", "unified"}});
    sglang_metrics(sglang, state);
    text += sglang.text();
  }
  return text;
}

}  // namespace glint
