// One HTTP exchange at a time, for everything but load: lists of models, metrics, single requests.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/client/connection.h"
#include "bench/client/http_reader.h"

namespace glint::bench {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpAsk {
  std::string method = "GET";
  std::string path;  // behind the target's prefix
  HttpHeaders headers;
  std::string body;
  double timeout_s = 60;
  /// Called with each piece of the body as it comes, and the time of the read; false breaks the connection.
  std::function<bool(std::string_view piece, double at_s)> on_body;
};

struct HttpReply {
  int status = 0;  // 0: no answer; error says why
  std::string reason;
  HttpHeaders headers;  // names in lower case
  std::string body;
  std::string error;
  bool broken_off = false;  // on_body said so

  [[nodiscard]] bool ok() const { return error.empty() && status >= 200 && status < 300; }
  [[nodiscard]] std::string header(std::string_view name) const;
};

/// "POST /v1/completions HTTP/1.1..." with Host and Content-Length. A header that `headers` names itself is
/// not added; CR and LF in values are refused (bad_input).
std::string request_text(const Url& url, const HttpAsk& ask);

/// Never throws for what the server or the network does.
HttpReply fetch(const Target& target, const HttpAsk& ask);

/// What an answer that is no success says, in one line: "404 Not Found: The model `x` does not exist."
std::string failure_text(const HttpReply& reply);
/// `message` of {"error": {"message": ...}}, {"error": "..."}, {"message": ...} or {"detail": ...}; else the
/// beginning of the body.
std::string error_message(std::string_view body);

}  // namespace glint::bench
