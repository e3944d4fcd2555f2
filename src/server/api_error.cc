#include "server/api_error.h"

#include <new>

#include "base/log.h"
#include "engine/engine.h"
#include "text/request_error.h"

namespace glint {

ApiError http_error(int status, std::string message) {
  return {status, std::string(status_phrase(status)), std::move(message), std::nullopt};
}

ApiError error_of(const std::exception& failure) {
  if (const auto* refusal = dynamic_cast<const ApiRefusal*>(&failure)) return refusal->error();
  if (const auto* request = dynamic_cast<const RequestError*>(&failure)) {
    return {400, "BadRequestError", request->what(), request->param()};
  }
  if (const auto* full = dynamic_cast<const QueueFull*>(&failure)) {
    ApiError error = http_error(503, full->what());
    error.retry_after_s = full->retry_after_s();
    return error;
  }
  if (const auto* error = dynamic_cast<const Error*>(&failure)) {
    switch (error->kind()) {
      case ErrorKind::bad_input:
      case ErrorKind::unsupported:
        return {400, "BadRequestError", error->what(), std::nullopt};
      case ErrorKind::not_found:
        return {404, "NotFoundError", error->what(), std::nullopt};
      case ErrorKind::busy:
        return http_error(503, error->what());
      case ErrorKind::io:
      case ErrorKind::internal:
        break;
    }
  }
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) {
    return http_error(503, "the server is out of memory for this request; try again");
  }
  log_error("a request failed: ", failure.what());
  return {500, "InternalServerError", "the request failed inside the server; its log says more",
          std::nullopt};
}

namespace {

constexpr int kOverloaded = 529;

std::string_view anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case kOverloaded:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

std::string error_json(const ApiError& error, ErrorForm form) {
  OrderedJson inner;
  if (form == ErrorForm::anthropic) {
    inner["type"] = anthropic_type(error.status);
    inner["message"] = error.message;
    return dump_json(OrderedJson{{"type", "error"}, {"error", std::move(inner)}});
  }
  inner["message"] = error.message;
  inner["type"] = error.type;
  inner["param"] = error.param ? OrderedJson(*error.param) : OrderedJson(nullptr);
  inner["code"] = error.status;
  return dump_json(OrderedJson{{"error", std::move(inner)}});
}

HttpResponse error_response(const ApiError& error, ErrorForm form) {
  HttpResponse response{error.status, "application/json", error_json(error, form), {}, false};
  if (error.status == 503) response.headers.push_back({"Retry-After", std::to_string(error.retry_after_s)});
  if (error.status == 503 && form == ErrorForm::anthropic) response.status = kOverloaded;
  return response;
}

}  // namespace glint
