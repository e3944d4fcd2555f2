// The part of ApiService that tells whether it serves: liveness, readiness, metrics, facts.
#include "base/log.h"
#include "ops/types.h"
#include "server/api_error.h"
#include "server/api_service.h"
#include "server/metrics_page.h"

namespace glint {

namespace {

HttpResponse json_response(int status, const OrderedJson& body) {
  return {status, "application/json", dump_json(body), {}, false};
}

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

OrderedJson accept_length(const DraftCounts& drafts) {
  if (drafts.drafts == 0) return nullptr;
  return 1 + static_cast<double>(drafts.accepted_tokens) / static_cast<double>(drafts.drafts);
}

}  // namespace

std::optional<HttpResponse> ApiService::unhealthy() const {
  switch (state_.load()) {
    case State::loading:
      return loading_response();
    case State::draining:
      return json_response(503, {{"state", "draining"}});
    case State::ready:
      break;
  }
  const auto served = model();
  if (!served) return json_response(503, {{"state", "dead"}});
  const EngineHealth health = served->engine->health();
  if (!health.alive) return json_response(503, {{"state", "dead"}});
  const auto limit = settings_.health.watchdog.step_limit;
  if (limit.count() > 0 && health.running && *health.running > limit) {
    return json_response(
        503, {{"state", "stuck"}, {"step", health.step}, {"running_s", seconds(*health.running)}});
  }
  return std::nullopt;
}

HttpResponse ApiService::live() const {
  return unhealthy().value_or(HttpResponse{});
}

HttpResponse ApiService::ready() const {
  if (auto response = unhealthy()) return std::move(*response);
  const auto within = settings_.health.ready_within;
  const auto served = model();
  if (within.count() == 0 || !served) return {};
  const auto since = served->engine->health().since_forward;
  if (since && *since <= within) return {};
  OrderedJson body;
  body["state"] = "not ready";
  body["last_forward_s"] = since ? OrderedJson(seconds(*since)) : OrderedJson(nullptr);
  return json_response(503, body);
}

void ApiService::keep_ready() {
  if (state_ != State::ready || canary_) return;
  const auto served = model();
  if (!served || !served->engine->alive()) return;
  const EngineHealth health = served->engine->health();
  const bool fresh = health.since_forward && *health.since_forward < settings_.health.ready_within / 2;
  if (fresh || health.running) return;  // a step that runs is the better witness
  canary_ = std::make_shared<HealthProbe>(served->engine, router_, 0, [this](const std::string& failure) {
    if (!failure.empty()) log_warning("the health probe failed: ", failure);
    canary_ = nullptr;
  });
  const auto probe = canary_;  // it may end within the call
  probe->submit(served->primary_eos.value_or(0));
}

void ApiService::generate_health(const std::shared_ptr<HttpExchange>& exchange) {
  if (auto response = unhealthy()) return exchange->respond(std::move(*response));
  const auto served = model();
  if (!served) return exchange->respond(json_response(503, {{"state", "dead"}}));
  const auto probe = std::make_shared<HealthProbe>(
      served->engine, router_, exchange->thread(), [exchange](const std::string& failure) {
        if (failure.empty()) return exchange->respond({});
        exchange->respond(error_response(http_error(503, failure)));
      });
  exchange->on_gone([weak = std::weak_ptr<HealthProbe>(probe)] {
    if (const auto target = weak.lock()) target->cancel();
  });
  probe->submit(served->primary_eos.value_or(0));
}

HttpResponse ApiService::metrics() const {
  MetricsState state;
  if (tracer_) state.traces = tracer_->counts();
  state.model_name = settings_.model_names.front();
  state.requests = &metrics_;
  state.http = server_.counts();
  state.generation_tokens_per_s = stats_log_.generation_tokens_per_s();
  if (const auto served = model()) {
    state.engine = served->engine->stats();
    state.limits = served->engine->limits();
    state.expert_load = served->engine->expert_load();
  }
  {
    const std::lock_guard lock(mutex_);
    if (watchdog_) state.steps_over_limit = watchdog_->steps_over_limit();
  }
  return {200, "text/plain; version=0.0.4; charset=utf-8", metrics_page(state, settings_.metrics), {}, false};
}

HttpResponse ApiService::server_info() const {
  const auto served = model();
  if (!served) return loading_response();
  const EngineStats stats = served->engine->stats();
  const EngineLimits limits = served->engine->limits();
  OrderedJson engine;
  engine["avg_spec_accept_length"] = accept_length(stats.drafts);
  engine["last_gen_throughput"] = stats_log_.generation_tokens_per_s();
  OrderedJson body;
  body["model_path"] = settings_.model_root;
  body["served_model_name"] = settings_.model_names.front();
  body["version"] = GLINT_VERSION;
  body["max_model_len"] = limits.max_model_len;
  body["max_num_seqs"] = limits.max_num_seqs;
  body["max_total_num_tokens"] = stats.pages_total * ops::kPageTokens;
  body["num_speculative_tokens"] = limits.num_speculative_tokens;
  body["avg_spec_accept_length"] = engine["avg_spec_accept_length"];
  body["internal_states"] = OrderedJson::array({engine});
  return json_response(200, body);
}

HttpResponse ApiService::model_info() const {
  return json_response(200, {{"model_path", settings_.model_root},
                             {"tokenizer_path", settings_.model_root},
                             {"is_generation", true}});
}

std::vector<StatsLog::Line> ApiService::stats_lines(double period_s) {
  const auto served = model();
  if (!served) return {};
  return stats_log_.lines(served->engine->stats(), metrics_, period_s);
}

}  // namespace glint
