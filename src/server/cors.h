// Cross-origin resource sharing: which web pages may call the server from a browser. As vLLM's front end
// (Starlette) does it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace glint {

struct CorsOptions {
  std::vector<std::string> origins{"*"};  // "*": all
  std::vector<std::string> methods{"*"};
  std::vector<std::string> headers{"*"};
  bool credentials = false;  // cookies and Authorization that the browser keeps
};

/// A JSON list of texts that may stand in headers, such as ["https://a.example"]. Throws bad_input for
/// anything else.
std::vector<std::string> parse_json_strings(std::string_view text);

class Cors {
 public:
  explicit Cors(CorsOptions options);
  /// The lines that let the page of the request's Origin read the answer; none without Origin, none for an
  /// origin that is not allowed.
  [[nodiscard]] std::vector<HttpHeader> answer_headers(const HttpRequest& request) const;
  /// The answer to a preflight request (OPTIONS with Access-Control-Request-Method), without the lines
  /// above: 200, or 400 with what is not allowed. Nothing for other requests.
  [[nodiscard]] std::optional<HttpResponse> preflight(const HttpRequest& request) const;

 private:
  [[nodiscard]] bool allows_origin(std::string_view origin) const;
  [[nodiscard]] bool allows_headers(std::string_view requested) const;

  CorsOptions options_;
  bool any_origin_, any_header_;
};

}  // namespace glint
