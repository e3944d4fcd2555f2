// The part of ApiService that creates, keeps, cancels and gives out responses.
#include "server/api_error.h"
#include "server/api_service.h"
#include "server/detached_exchange.h"
#include "server/responses_plan.h"
#include "text/python_json.h"

namespace glint {

namespace {

HttpResponse stored(std::string text) {
  return {200, "application/json", std::move(text), {}, false};
}

HttpResponse unknown(const std::string& id) {
  return error_response(
      {404, "NotFoundError", cat("Response with id '", id.substr(0, 200), "' not found."), "response_id"});
}

/// The stored text with another status.
std::string with_status(const std::string& response, const char* status) {
  OrderedJson json = parse_python_json(response, "the stored response");
  json["status"] = status;
  return python_dumps(json);
}

}  // namespace

void ApiService::create_response(const RouteMatch& match, HttpRequest request,
                                 std::shared_ptr<HttpExchange> exchange) {
  in_worker(match, std::move(request), std::move(exchange),
            [this, arrived = EngineClock::now()](const HttpRequest& head,
                                                 const std::shared_ptr<const ServedModel>& served) {
              const auto plan = std::make_shared<ResponsesPlan>(
                  plan_response(head.body, ids_of_request(head), *served, settings_, responses_));
              plan->generation.arrived = arrived;
              plan->generation.trace = begin_trace(tracer_, head);
              return [this, plan, served](const std::shared_ptr<HttpExchange>& to) {
                if (plan->queued) return begin_background(std::move(*plan), served, to);
                begin_answer(std::move(plan->generation), served, to);
              };
            });
}

void ApiService::begin_background(ResponsesPlan plan, const std::shared_ptr<const ServedModel>& served,
                                  const std::shared_ptr<HttpExchange>& exchange) {
  const int thread = exchange->thread();
  const auto detached = std::make_shared<DetachedExchange>(
      thread, [this, thread](std::function<void()> task) { server_.post(thread, std::move(task)); });
  StoredResponse entry;
  entry.response = *plan.queued;
  entry.background = true;
  entry.cancel = [this, thread, weak = std::weak_ptr<DetachedExchange>(detached)] {
    server_.post(thread, [weak] {
      if (const auto target = weak.lock()) target->leave();
    });
  };
  responses_->put(plan.id, std::move(entry));
  exchange->respond(stored(std::move(*plan.queued)));
  begin_answer(std::move(plan.generation), served, detached);
}

HttpResponse ApiService::find_response(const RouteMatch& match) const {
  auto entry = responses_->find(match.id);
  return entry ? stored(std::move(entry->response)) : unknown(match.id);
}

HttpResponse ApiService::delete_response(const RouteMatch& match) {
  const auto entry = responses_->find(match.id);
  if (!entry || !responses_->remove(match.id)) return unknown(match.id);
  if (!entry->finished && entry->cancel) entry->cancel();
  const OrderedJson body{{"id", match.id}, {"object", "response"}, {"deleted", true}};
  return stored(dump_json(body));
}

HttpResponse ApiService::cancel_response(const RouteMatch& match) {
  auto entry = responses_->find(match.id);
  if (!entry) return unknown(match.id);
  if (!entry->background) {
    return error_response(
        {400, "BadRequestError",
         "only a response that was created with background true can be cancelled; end the connection "
         "of any other",
         "response_id"});
  }
  if (entry->finished) return stored(std::move(entry->response));
  StoredResponse cancelled;
  cancelled.response = with_status(entry->response, "cancelled");
  cancelled.background = cancelled.finished = true;
  if (!responses_->finish(match.id, cancelled)) return find_response(match);  // it has just ended by itself
  entry->cancel();
  return stored(std::move(cancelled.response));
}

}  // namespace glint
