// The API behind the HTTP server: routes, the life of the server (loading, ready, draining, dead), and the
// way of a request through worker pool and engine.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "server/answer.h"
#include "server/api_keys.h"
#include "server/generation_plan.h"
#include "server/health_probe.h"
#include "server/http_front.h"
#include "server/http_server.h"
#include "server/open_answers.h"
#include "server/responses_plan.h"
#include "server/routes.h"
#include "server/serving_metrics.h"
#include "server/stats_log.h"
#include "server/worker_pool.h"

namespace glint {

struct LoadProgress {
  std::string stage = "starting";  // "reading weights"
  double done = 0;                 // 0 to 1, over all stages
  std::optional<int64_t> eta_s;
};

class ApiService : public HttpHandler {
 public:
  /// Binds the address; answers 503 until set_ready(). Throws as HttpServer does.
  ApiService(ApiSettings settings, HttpOptions http, int worker_threads);
  ~ApiService() override;
  ApiService(const ApiService&) = delete;
  ApiService& operator=(const ApiService&) = delete;

  void start() { server_.start(); }
  [[nodiscard]] const HttpServer& http() const { return server_; }

  void set_progress(LoadProgress progress);
  /// For make_engine. May be called from the engine's thread until stop() has returned.
  OutputSink sink();
  void set_ready(ServedModel model);

  /// From now on new requests get 503 and the end of their connection; /health is 503.
  void begin_drain();
  /// True once every request has its answer; waits up to `timeout`.
  bool wait_idle(std::chrono::milliseconds timeout) const;
  /// Gives every request that is left its end: a final error event, or a 503.
  void fail_rest();
  /// Ends all connections and threads, and lets the model go.
  void stop();
  /// "/v1/models, Methods: GET", for the log.
  static std::vector<std::string> route_list();
  /// Number of requests that wait for their answer.
  [[nodiscard]] size_t open_requests() const { return server_.open_answers(); }

  // HttpHandler
  std::vector<HttpHeader> prepare(HttpRequest& head) override;
  std::optional<HttpResponse> screen(const HttpRequest& head) override;
  void handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override;
  HttpResponse refusal(int status, const std::string& reason) override;
  void answered(const HttpAccess& access) override;

  void set_access_log(bool on) { access_log_ = on; }
  /// What --watchdog-timeout's exit does; before set_ready(). Without it the process ends with status 1.
  void set_watchdog_exit(std::function<void()> on_exit) { watchdog_exit_ = std::move(on_exit); }
  /// The throughput lines for the time since the last call. One thread.
  std::vector<StatsLog::Line> stats_lines(double seconds);

 private:
  enum class State { loading, ready, draining };
  std::optional<HttpResponse> screen_api(const HttpRequest& head);
  HttpResponse answer_simple(const RouteMatch& match, const HttpRequest& request);
  /// Gives the answer; on the exchange's io thread.
  using Finish = std::function<void(const std::shared_ptr<HttpExchange>&)>;
  using Work = std::function<Finish(const HttpRequest&, const std::shared_ptr<const ServedModel>&)>;
  /// Runs `work` off the io threads, then what it returned. What it throws becomes the answer.
  void in_worker(const RouteMatch& match, HttpRequest request, std::shared_ptr<HttpExchange> exchange,
                 Work work);
  void answer_json(const RouteMatch& match, HttpRequest request, std::shared_ptr<HttpExchange> exchange,
                   std::function<OrderedJson(const HttpRequest&, const ServedModel&)> make);
  void generate(const RouteMatch& match, HttpRequest request, std::shared_ptr<HttpExchange> exchange,
                std::function<GenerationPlan(const HttpRequest&, const ServedModel&)> make);
  // responses_routes.cc
  void create_response(const RouteMatch& match, HttpRequest request, std::shared_ptr<HttpExchange> exchange);
  void begin_background(ResponsesPlan plan, const std::shared_ptr<const ServedModel>& served,
                        const std::shared_ptr<HttpExchange>& exchange);
  [[nodiscard]] HttpResponse find_response(const RouteMatch& match) const;
  HttpResponse delete_response(const RouteMatch& match);
  HttpResponse cancel_response(const RouteMatch& match);
  // admin_routes.cc
  HttpResponse abort_requests(const HttpRequest& request);
  static HttpResponse reset_prefix_cache(const HttpRequest& request, Engine& engine);
  static HttpResponse flush_cache(Engine& engine);
  void begin_answer(GenerationPlan plan, std::shared_ptr<const ServedModel> model,
                    const std::shared_ptr<HttpExchange>& exchange);
  [[nodiscard]] HttpResponse live() const;
  [[nodiscard]] HttpResponse ready() const;
  /// Why the engine cannot be trusted to serve, if it cannot.
  [[nodiscard]] std::optional<HttpResponse> unhealthy() const;
  [[nodiscard]] HttpResponse metrics() const;
  [[nodiscard]] HttpResponse server_info() const;
  [[nodiscard]] HttpResponse model_info() const;
  void generate_health(const std::shared_ptr<HttpExchange>& exchange);
  /// On io thread 0: asks the engine for a forward pass if none has run for a while.
  void keep_ready();
  [[nodiscard]] HttpResponse loading_response(ErrorForm form = ErrorForm::openai) const;
  [[nodiscard]] OrderedJson model_card(const std::string& name) const;
  [[nodiscard]] HttpResponse models() const;
  [[nodiscard]] HttpResponse one_model(const std::string& name) const;
  [[nodiscard]] std::shared_ptr<const ServedModel> model() const;

  ApiSettings settings_;
  ApiKeys keys_;
  HttpFront front_;
  std::shared_ptr<TraceExporter> tracer_;  // none: no traces
  std::atomic<State> state_{State::loading};
  std::atomic<bool> failing_{false};  // fail_rest() has been called
  std::atomic<bool> access_log_{true};
  mutable std::mutex mutex_;  // guards the next three
  LoadProgress progress_;
  std::shared_ptr<const ServedModel> model_;
  std::shared_ptr<Watchdog> watchdog_;  // likewise
  int64_t created_s_ = 0;
  OpenAnswers open_answers_;  // outlives the router, which holds answers
  std::shared_ptr<ResponseStore> responses_;
  ServingMetrics metrics_;
  StatsLog stats_log_;
  std::shared_ptr<HealthProbe> canary_;  // io thread 0's
  std::function<void()> watchdog_exit_;

  HttpServer server_;
  StepRouter router_;
  WorkerPool workers_;
};

}  // namespace glint
