// What happens to every request before the routes see it: the prefix of a proxy, request ids, CORS.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/cors.h"
#include "server/http.h"

namespace glint {

struct FrontOptions {
  CorsOptions cors;
  std::string root_path;     // "/api": that a proxy has put in front of every path
  bool request_ids = false;  // answers carry X-Request-Id
};

class HttpFront {
 public:
  /// Throws as check_root_path does.
  explicit HttpFront(FrontOptions options);

  /// As HttpHandler::prepare. A path without the root path is taken as it is, as vLLM does. A request
  /// without an id in its header gets one, which becomes part of the answer's id unless its body brings one.
  [[nodiscard]] std::vector<HttpHeader> prepare(HttpRequest& head) const;
  [[nodiscard]] const Cors& cors() const { return cors_; }

 private:
  void strip_root(HttpRequest& head) const;

  FrontOptions options_;
  Cors cors_;
};

/// Without slashes at its end. Throws bad_input for one that does not begin with '/'.
std::string check_root_path(std::string_view path);

/// `bytes` random bytes, as twice as many lower-case hexadecimal digits.
std::string random_hex(size_t bytes);

}  // namespace glint
