// A request that cannot be served as it is written: HTTP 400 with the place of the fault.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace glint {

/// An Error(bad_input) that also names the field, as a dotted path from the body: "tools",
/// "tool_choice.function.name", "messages.2.tool_calls.0.function.arguments". List positions count from 0.
class RequestError : public Error {
 public:
  RequestError(std::string param, const std::string& message)
      : Error(ErrorKind::bad_input, message), param_(std::move(param)) {}
  [[nodiscard]] const std::string& param() const { return param_; }

 private:
  std::string param_;
};

/// Throws RequestError(param, cat(parts...)).
template <class... Parts>
[[noreturn]] void refuse(std::string param, const Parts&... parts) {
  throw RequestError(std::move(param), cat(parts...));
}

}  // namespace glint
