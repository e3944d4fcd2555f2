#include "server/api_service.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <utility>

#include "base/log.h"
#include "server/api_error.h"
#include "server/messages_plan.h"
#include "server/openapi.h"
#include "server/request_body.h"
#include "server/routes.h"
#include "server/tokenize.h"
#include "server/web_page.h"

namespace glint {

namespace {

constexpr size_t kLargeBodyBytes = size_t{256} << 10;

bool is_json(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  while (!content_type.empty() && content_type.back() == ' ') content_type.remove_suffix(1);
  return equal_ignoring_case(content_type, "application/json");
}

bool may_have_body(const HttpRequest& head) {
  if (head.method != "POST") return false;
  const std::string_view length = head.header("Content-Length");
  return (!length.empty() && length != "0") || !head.header("Transfer-Encoding").empty();
}

/// Requests that may wait for a grammar to be compiled.
constexpr int kAsideMax = 8;

HttpResponse json_response(int status, const OrderedJson& body) {
  return {status, "application/json", dump_json(body), {}, false};
}

}  // namespace

ApiService::ApiService(ApiSettings settings, HttpOptions http, int worker_threads)
    : settings_(std::move(settings)),
      keys_(settings_.api_keys, settings_.admin_api_keys),
      front_(settings_.front),
      created_s_(static_cast<int64_t>(std::time(nullptr))),
      responses_(std::make_shared<ResponseStore>(settings_.response_store_bytes)),
      server_(std::move(http), *this),
      router_(
          server_.threads(),
          [this](int thread, std::function<void()> task) { server_.post(thread, std::move(task)); },
          [this](int thread, std::function<void()> task) {
            return server_.make_waker(thread, std::move(task));
          }),
      workers_(worker_threads, kAsideMax) {
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
  if (model.grammars) model.grammars->step_aside_by(WorkerPool::step_aside);
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
  for (const RouteEntry& entry : routes()) list.push_back(cat(entry.path, ", Methods: ", entry.methods));
  return list;
}

HttpResponse ApiService::loading_response(ErrorForm form) const {
  LoadProgress progress;
  {
    const std::lock_guard lock(mutex_);
    progress = progress_;
  }
  const int percent = static_cast<int>(std::clamp(progress.done, 0.0, 1.0) * 100);
  ApiError error = http_error(
      503, cat("the model is still loading (", progress.stage, ", ", percent, " %); try again soon"));
  error.retry_after_s = std::clamp<int64_t>(progress.eta_s.value_or(2), 1, 60);
  HttpResponse response = error_response(error, form);
  OrderedJson body;
  body["state"] = "loading";
  body["stage"] = progress.stage;
  body["percent"] = percent;
  body["eta_s"] = progress.eta_s ? OrderedJson(*progress.eta_s) : OrderedJson(nullptr);
  body.update(OrderedJson::parse(response.body));
  response.body = dump_json(body);
  return response;
}

OrderedJson ApiService::model_card(const std::string& name) const {
  const auto served = model();
  OrderedJson card;
  card["id"] = name;
  card["object"] = "model";
  card["created"] = created_s_;
  card["owned_by"] = "vllm";
  card["root"] = settings_.model_root;
  card["parent"] = nullptr;
  card["max_model_len"] = served ? OrderedJson(served->engine->limits().max_model_len) : OrderedJson(nullptr);
  card["permission"] = OrderedJson::array();
  return card;
}

HttpResponse ApiService::models() const {
  OrderedJson list;
  list["object"] = "list";
  list["data"] = OrderedJson::array();
  for (const std::string& name : settings_.model_names) list["data"].push_back(model_card(name));
  return json_response(200, list);
}

HttpResponse ApiService::one_model(const std::string& name) const {
  try {
    check_model(name, settings_);
  } catch (const ApiRefusal& refused) {
    return error_response(refused.error());
  }
  return json_response(200, model_card(name));
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
  if (const auto match = find_route(head.path)) {
    return HttpResponse{204, "", "", {{"Allow", allowed_methods(*match->entry)}}, false};
  }
  return refusal(404, "Not Found");
}

std::optional<HttpResponse> ApiService::screen_api(const HttpRequest& head) {
  const auto match = find_route(head.path);
  const ErrorForm form = match ? match->entry->errors : ErrorForm::openai;
  const bool guarded = ApiKeys::guards(head.path) || ApiKeys::guards_admin(head.path);
  if (!keys_.allow(head)) {
    if (form == ErrorForm::openai) return json_response(401, {{"error", "Unauthorized"}});
    return error_response(http_error(401, "Unauthorized"), form);
  }
  if (!match || (match->entry->route == Route::openapi && settings_.hide_openapi))
    return refusal(404, cat("Not Found: there is no route ", head.path.substr(0, 200)));
  if (!allows(*match->entry, head.method)) {
    HttpResponse response = error_response(http_error(405, "Method Not Allowed"), form);
    response.headers.push_back({"Allow", allowed_methods(*match->entry)});
    return response;
  }
  if (!guarded) return std::nullopt;
  if (state_ == State::loading) return loading_response(form);
  if (state_ == State::draining) {
    HttpResponse response = error_response(http_error(503, "the server is shutting down"), form);
    response.close = true;
    return response;
  }
  if (may_have_body(head) && !is_json(head.header("Content-Type"))) {
    ApiError error = http_error(
        400, "Unsupported Media Type: only 'application/json' is allowed; set the header Content-Type");
    error.param = "header.content-type";
    return error_response(error, form);
  }
  return std::nullopt;
}

void ApiService::handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  const auto match = find_route(request.path);
  GLINT_CHECK(match);
  switch (match->entry->route) {
    case Route::responses:
      return create_response(*match, std::move(request), std::move(exchange));
    case Route::chat:
    case Route::completions: {
      const auto endpoint = match->entry->route == Route::chat ? Endpoint::chat : Endpoint::completions;
      return generate(*match, std::move(request), std::move(exchange),
                      [this, endpoint](const HttpRequest& head, const ServedModel& served) {
                        return plan_generation(endpoint, head.body, ids_of_request(head), served, settings_);
                      });
    }
    case Route::messages:
      return generate(*match, std::move(request), std::move(exchange),
                      [this](const HttpRequest& head, const ServedModel& served) {
                        return plan_message(head.body, ids_of_request(head), served, settings_);
                      });
    case Route::count_tokens:
      return answer_json(*match, std::move(request), std::move(exchange),
                         [this](const HttpRequest& head, const ServedModel& served) {
                           return count_message_tokens(head.body, served, settings_);
                         });
    case Route::tokenize:
    case Route::detokenize: {
      const auto make = match->entry->route == Route::tokenize ? tokenize : detokenize;
      return answer_json(*match, std::move(request), std::move(exchange),
                         [this, make](const HttpRequest& head, const ServedModel& served) {
                           return make(head.body, served, settings_);
                         });
    }
    case Route::abort:
      return in_worker(*match, std::move(request), std::move(exchange),
                       [this](const HttpRequest& head, const std::shared_ptr<const ServedModel>& /*served*/) {
                         return [response = abort_requests(head)](const std::shared_ptr<HttpExchange>& to) {
                           to->respond(response);
                         };
                       });
    case Route::reset_prefix_cache:
    case Route::flush_cache: {
      const bool flush = match->entry->route == Route::flush_cache;
      return in_worker(*match, std::move(request), std::move(exchange),
                       [flush](const HttpRequest& head, const std::shared_ptr<const ServedModel>& served) {
                         HttpResponse response =
                             flush ? flush_cache(*served->engine) : reset_prefix_cache(head, *served->engine);
                         return
                             [response](const std::shared_ptr<HttpExchange>& to) { to->respond(response); };
                       });
    }
    case Route::health_generate:
      return generate_health(exchange);
    default:
      break;
  }
  exchange->respond(answer_simple(*match, request));
}

HttpResponse ApiService::answer_simple(const RouteMatch& match, const HttpRequest& request) {
  switch (match.entry->route) {
    case Route::models:
      return models();
    case Route::response:
      return request.method == "DELETE" ? delete_response(match) : find_response(match);
    case Route::response_cancel:
      return cancel_response(match);
    case Route::model:
      return one_model(match.id);
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

void ApiService::in_worker(const RouteMatch& match, HttpRequest request,
                           std::shared_ptr<HttpExchange> exchange, Work work) {
  const bool large = request.body.size() >= kLargeBodyBytes;
  // std::function copies its target, a request is too large for that.
  const auto shared = std::make_shared<HttpRequest>(std::move(request));
  auto job = [this, shared, exchange, errors = match.entry->errors, work = std::move(work)] {
    if (exchange->gone()) return;
    const auto served = model();
    if (!served) return;
    Finish finish;
    try {
      finish = work(*shared, served);
    } catch (const std::exception& failure) {
      finish = [error = error_of(failure), errors](const std::shared_ptr<HttpExchange>& to) {
        to->respond(error_response(error, errors));
      };
    }
    *shared = HttpRequest{};  // gives its share of the body memory back
    exchange->post([exchange, finish = std::move(finish)] { finish(exchange); });
  };
  workers_.submit(std::move(job), large);
}

void ApiService::answer_json(const RouteMatch& match, HttpRequest request,
                             std::shared_ptr<HttpExchange> exchange,
                             std::function<OrderedJson(const HttpRequest&, const ServedModel&)> make) {
  in_worker(
      match, std::move(request), std::move(exchange),
      [make = std::move(make)](const HttpRequest& head, const std::shared_ptr<const ServedModel>& served) {
        const auto response = std::make_shared<HttpResponse>(json_response(200, make(head, *served)));
        return [response](const std::shared_ptr<HttpExchange>& to) { to->respond(std::move(*response)); };
      });
}

void ApiService::generate(const RouteMatch& match, HttpRequest request,
                          std::shared_ptr<HttpExchange> exchange,
                          std::function<GenerationPlan(const HttpRequest&, const ServedModel&)> make) {
  in_worker(match, std::move(request), std::move(exchange),
            [this, make = std::move(make), arrived = EngineClock::now()](
                const HttpRequest& head, const std::shared_ptr<const ServedModel>& served) {
              const auto plan = std::make_shared<GenerationPlan>(make(head, *served));
              plan->arrived = arrived;
              plan->trace = begin_trace(tracer_, head);
              return [this, plan, served](const std::shared_ptr<HttpExchange>& to) {
                begin_answer(std::move(*plan), served, to);
              };
            });
}

void ApiService::begin_answer(GenerationPlan plan, std::shared_ptr<const ServedModel> served,
                              const std::shared_ptr<HttpExchange>& exchange) {
  if (exchange->gone()) return;
  if (failing_)
    return exchange->respond(plan.format->refusal(http_error(503, "the server is shutting down")));
  if (!served->engine->alive()) {
    return exchange->respond(
        plan.format->refusal(http_error(503, "the engine has stopped; the server must be restarted")));
  }
  std::string id = plan.id;
  const auto answer =
      std::make_shared<Answer>(std::move(plan), std::move(served), exchange, router_, metrics_);
  answer->hold(open_answers_.enter(std::move(id), answer, exchange));
  answer->start();
}

}  // namespace glint
