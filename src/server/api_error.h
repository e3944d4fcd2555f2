// Errors of the API, shaped as the clients of OpenAI and of Anthropic expect them.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "server/http.h"

namespace glint {

struct ApiError {
  int status = 400;
  std::string type = "BadRequestError";
  std::string message;
  std::optional<std::string> param;
  int64_t retry_after_s = 1;  // status 503: when to try again
};

/// A request that gets this error as its answer.
class ApiRefusal : public std::exception {
 public:
  explicit ApiRefusal(ApiError error) : error_(std::move(error)) {}
  [[nodiscard]] const ApiError& error() const { return error_; }
  [[nodiscard]] const char* what() const noexcept override { return error_.message.c_str(); }

 private:
  ApiError error_;
};

/// Throws a 400 of type BadRequestError that names `param`.
template <class... Parts>
[[noreturn]] void refuse_field(std::string param, const Parts&... parts) {
  throw ApiRefusal({400, "BadRequestError", cat(parts...), std::move(param)});
}

/// The error for a failure of the HTTP layer; the type is the status' phrase ("Not Found").
ApiError http_error(int status, std::string message);

/// What a caught exception is to the client: bad_input and unsupported are 400, not_found 404, everything
/// else 500 with a text that tells nothing about the inside.
ApiError error_of(const std::exception& failure);

enum class ErrorForm {
  openai,    // {"error": {"message", "type", "param", "code"}}
  anthropic  // {"type": "error", "error": {"type", "message"}}, the types being Anthropic's
};

std::string error_json(const ApiError& error, ErrorForm form = ErrorForm::openai);
/// With Anthropic's form the status 503 becomes 529, which its clients know as "overloaded".
HttpResponse error_response(const ApiError& error, ErrorForm form = ErrorForm::openai);

}  // namespace glint
