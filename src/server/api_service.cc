#include "server/api_service.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <utility>

#include "base/log.h"
#include "server/api_error.h"
#include "server/openapi.h"
#include "server/web_page.h"

namespace glint {

namespace {

constexpr size_t kLargeBodyBytes = size_t{256} << 10;

enum class Route {
  chat,
  completions,
  models,
  health,
  ready,
  health_generate,
  ping,
  version,
  metrics,
  load,
  server_info,
  model_info,
  openapi,
  page
};

struct RouteEntry {
  std::string_view path;
  Route route;
  bool get, post;
};

constexpr RouteEntry kRoutes[] = {
    {"/v1/chat/completions", Route::chat, false, true},
    {"/v1/completions", Route::completions, false, true},
    {"/v1/models", Route::models, true, false},
    {"/health", Route::health, true, false},
    {"/health/ready", Route::ready, true, false},
    {"/ping", Route::ping, true, true},
    {"/version", Route::version, true, false},
    {"/health_generate", Route::health_generate, true, false},
    {"/metrics", Route::metrics, true, false},
    {"/load", Route::load, true, false},
    {"/server_info", Route::server_info, true, false},
    {"/get_server_info", Route::server_info, true, false},
    {"/get_model_info", Route::model_info, true, false},
    {"/openapi.json", Route::openapi, true, false},
    {"/", Route::page, true, false},
    {"/page/app.js", Route::page, true, false},
    {"/page/live.js", Route::page, true, false},
    {"/page/markdown.js", Route::page, true, false},
    {"/page/style.css", Route::page, true, false},
};

const RouteEntry* find_route(std::string_view path) {
  for (const RouteEntry& entry : kRoutes) {
    if (entry.path == path) return &entry;
  }
  return nullptr;
}

bool allows(const RouteEntry& entry, std::string_view method) {
  if (method == "GET" || method == "HEAD") return entry.get;
  return method == "POST" && entry.post;
}

std::string allowed_methods(const RouteEntry& entry) {
  if (entry.get && entry.post) return "GET, HEAD, POST, OPTIONS";
  return entry.get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

bool is_json(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  while (!content_type.empty() && content_type.back() == ' ') content_type.remove_suffix(1);
  return equal_ignoring_case(content_type, "application/json");
}

HttpResponse json_response(int status, const OrderedJson& body) {
  return {status, "application/json", dump_json(body), {}, false};
}

}  // namespace

ApiService::ApiService(ApiSettings settings, HttpOptions http, int worker_threads)
    : settings_(std::move(settings)),
      keys_(settings_.api_keys, settings_.admin_api_keys),
      front_(settings_.front),
      created_s_(static_cast<int64_t>(std::time(nullptr))),
      server_(std::move(http), *this),
      router_(
          server_.threads(),
          [this](int thread, std::function<void()> task) { server_.post(thread, std::move(task)); },
          [this](int thread, std::function<void()> task) {
            return server_.make_waker(thread, std::move(task));
          }),
      workers_(worker_threads) {
  GLINT_CHECK(!settings_.model_names.empty());
  if (!settings_.traces.endpoint.empty()) tracer_ = std::make_shared<TraceExporter>(settings_.traces);
  const auto within = settings_.health.ready_within;
  if (within.count() == 0) return;
  server_.every(0,
                std::clamp<std::chrono::milliseconds>(within / 8, std::chrono::milliseconds(5),
                                                      std::chrono::milliseconds(1000)),
                [this] { keep_ready(); });
}

ApiService::~ApiService() {
  stop();
}

void ApiService::set_progress(LoadProgress progress) {
  const std::lock_guard lock(mutex_);
  progress_ = std::move(progress);
}

OutputSink ApiService::sink() {
  return [this](std::span<StepOutput> outputs) { router_.deliver(outputs); };
}

void ApiService::set_ready(ServedModel model) {
  {
    const std::lock_guard lock(mutex_);
    const auto on_exit = watchdog_exit_ ? watchdog_exit_ : [] { std::_Exit(1); };
    watchdog_ = std::make_shared<Watchdog>(model.engine, settings_.health.watchdog, on_exit);
    model_ = std::make_shared<const ServedModel>(std::move(model));
  }
  State expected = State::loading;
  state_.compare_exchange_strong(expected, State::ready);
}

std::shared_ptr<const ServedModel> ApiService::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

void ApiService::begin_drain() {
  state_ = State::draining;
}

bool ApiService::wait_idle(std::chrono::milliseconds timeout) const {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (server_.open_answers() > 0) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void ApiService::fail_rest() {
  failing_ = true;  // what still comes out of the worker pool is refused
  router_.fail_all(http_error(503, "the server is shutting down"));
}

void ApiService::stop() {
  workers_.stop();
  server_.stop();
  if (const auto probe = std::exchange(canary_, nullptr)) probe->cancel();
  std::shared_ptr<const ServedModel> last;
  std::shared_ptr<Watchdog> watchdog;
  const std::lock_guard lock(mutex_);
  last.swap(model_);
  watchdog.swap(watchdog_);
}

// ---------------------------------------------------------------------------------------------------- routes

std::vector<std::string> ApiService::route_list() {
  std::vector<std::string> list;
  for (const RouteEntry& entry : kRoutes) {
    list.push_back(cat(entry.path, ", Methods: ", entry.get ? (entry.post ? "GET, POST" : "GET") : "POST"));
  }
  return list;
}

HttpResponse ApiService::loading_response() const {
  LoadProgress progress;
  {
    const std::lock_guard lock(mutex_);
    progress = progress_;
  }
  const int percent = static_cast<int>(std::clamp(progress.done, 0.0, 1.0) * 100);
  OrderedJson body;
  body["state"] = "loading";
  body["stage"] = progress.stage;
  body["percent"] = percent;
  body["eta_s"] = progress.eta_s ? OrderedJson(*progress.eta_s) : OrderedJson(nullptr);
  OrderedJson error = OrderedJson::parse(error_json(http_error(
      503, cat("the model is still loading (", progress.stage, ", ", percent, " %); try again soon"))));
  body["error"] = error["error"];
  HttpResponse response = json_response(503, body);
  response.headers.push_back(
      {"Retry-After", std::to_string(std::clamp<int64_t>(progress.eta_s.value_or(2), 1, 60))});
  return response;
}

HttpResponse ApiService::models() const {
  const auto served = model();
  OrderedJson list;
  list["object"] = "list";
  list["data"] = OrderedJson::array();
  for (const std::string& name : settings_.model_names) {
    OrderedJson card;
    card["id"] = name;
    card["object"] = "model";
    card["created"] = created_s_;
    card["owned_by"] = "vllm";
    card["root"] = settings_.model_root;
    card["parent"] = nullptr;
    card["max_model_len"] =
        served ? OrderedJson(served->engine->limits().max_model_len) : OrderedJson(nullptr);
    card["permission"] = OrderedJson::array();
    list["data"].push_back(std::move(card));
  }
  return json_response(200, list);
}

HttpResponse ApiService::refusal(int status, const std::string& reason) {
  return error_response(http_error(status, reason));
}

void ApiService::answered(const HttpAccess& access) {
  if (!access_log_) return;
  log_info(access.peer, " - \"", access.method, " ", access.target, " HTTP/", access.version / 10, ".",
           access.version % 10, "\" ", access.status, " ", status_phrase(access.status));
}

std::vector<HttpHeader> ApiService::prepare(HttpRequest& head) {
  return front_.prepare(head);
}

std::optional<HttpResponse> ApiService::screen(const HttpRequest& head) {
  if (head.method != "OPTIONS") return screen_api(head);
  if (auto response = front_.cors().preflight(head)) return response;
  if (const RouteEntry* entry = find_route(head.path)) {
    return HttpResponse{204, "", "", {{"Allow", allowed_methods(*entry)}}, false};
  }
  return refusal(404, "Not Found");
}

std::optional<HttpResponse> ApiService::screen_api(const HttpRequest& head) {
  const bool guarded = ApiKeys::guards(head.path);
  if (!keys_.allow(head)) return json_response(401, {{"error", "Unauthorized"}});
  const RouteEntry* entry = find_route(head.path);
  if (entry == nullptr || (entry->route == Route::openapi && settings_.hide_openapi))
    return refusal(404, cat("Not Found: there is no route ", head.path.substr(0, 200)));
  if (!allows(*entry, head.method)) {
    HttpResponse response = refusal(405, "Method Not Allowed");
    response.headers.push_back({"Allow", allowed_methods(*entry)});
    return response;
  }
  if (!guarded) return std::nullopt;
  if (state_ == State::loading) return loading_response();
  if (state_ == State::draining) {
    HttpResponse response = refusal(503, "the server is shutting down");
    response.close = true;
    return response;
  }
  if (head.method == "POST" && !is_json(head.header("Content-Type"))) {
    ApiError error = http_error(
        400, "Unsupported Media Type: only 'application/json' is allowed; set the header Content-Type");
    error.param = "header.content-type";
    return error_response(error);
  }
  return std::nullopt;
}

void ApiService::handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  const RouteEntry* entry = find_route(request.path);
  GLINT_CHECK(entry != nullptr);
  if (entry->route == Route::chat) return generate(Endpoint::chat, std::move(request), std::move(exchange));
  if (entry->route == Route::completions) {
    return generate(Endpoint::completions, std::move(request), std::move(exchange));
  }
  if (entry->route == Route::health_generate) return generate_health(exchange);
  exchange->respond(answer_simple(request));
}

HttpResponse ApiService::answer_simple(const HttpRequest& request) {
  switch (find_route(request.path)->route) {
    case Route::models:
      return models();
    case Route::version:
      return json_response(200, {{"version", GLINT_VERSION}});
    case Route::metrics:
      return metrics();
    case Route::load:
      // Its own answer is open too.
      return json_response(200, {{"server_load", server_.open_answers() - 1}});
    case Route::server_info:
      return server_info();
    case Route::model_info:
      return model_info();
    case Route::openapi:
      return {200, "application/json", openapi_document(route_list()), {}, false};
    case Route::ready:
      return ready();
    case Route::page:
      return web_page(request);
    default:
      return live();
  }
}

// ----------------------------------------------------------------------------------------------------
// generating

void ApiService::generate(Endpoint endpoint, HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  const bool large = request.body.size() >= kLargeBodyBytes;
  // std::function copies its target, a request is too large for that.
  const auto shared = std::make_shared<HttpRequest>(std::move(request));
  const auto arrived = EngineClock::now();
  auto job = [this, endpoint, shared, exchange, arrived] {
    if (exchange->gone()) return;
    const auto served = model();
    if (!served) return;
    std::shared_ptr<GenerationPlan> plan;
    std::optional<ApiError> error;
    try {
      plan = std::make_shared<GenerationPlan>(
          plan_generation(endpoint, shared->body, shared->header("X-Request-Id"), *served, settings_));
      plan->arrived = arrived;
      plan->trace = begin_trace(tracer_, *shared);
    } catch (const std::exception& failure) {
      error = error_of(failure);
    }
    *shared = HttpRequest{};  // gives its share of the body memory back
    exchange->post([this, plan, error, served, exchange] {
      if (error) return exchange->respond(error_response(*error));
      begin_answer(std::move(*plan), served, exchange);
    });
  };
  workers_.submit(std::move(job), large);
}

void ApiService::begin_answer(GenerationPlan plan, std::shared_ptr<const ServedModel> served,
                              const std::shared_ptr<HttpExchange>& exchange) {
  if (exchange->gone()) return;
  if (failing_) return exchange->respond(error_response(http_error(503, "the server is shutting down")));
  if (!served->engine->alive()) {
    return exchange->respond(
        error_response(http_error(503, "the engine has stopped; the server must be restarted")));
  }
  std::make_shared<Answer>(std::move(plan), std::move(served), exchange, router_, metrics_)->start();
}

}  // namespace glint
