// Errors that a user can cause: one line that says what was asked, what was found and what would help.
// A broken invariant of our own is a GLINT_CHECK: it throws an internal error that names the place.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace glint {

enum class ErrorKind {
  bad_input,    // a flag, file or request is wrong: exit status 2 or HTTP 400
  not_found,    // exit status 2 or HTTP 404
  unsupported,  // legal elsewhere, not here: exit status 2 or HTTP 400
  busy,         // too much is asked at once: HTTP 503
  io,           // the system refused: exit status 1 or HTTP 500
  internal,     // our own fault: exit status 1 or HTTP 500
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Joins its arguments as operator<< prints them.
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Throws Error(kind, cat(parts...)).
template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, cat(parts...));
}

#define GLINT_CHECK(condition)                                                                        \
  do {                                                                                                \
    if (!(condition)) {                                                                               \
      ::glint::fail(::glint::ErrorKind::internal, __FILE__, ":", __LINE__, ": broken: ", #condition); \
    }                                                                                                 \
  } while (false)

}  // namespace glint
