#include "server/cors.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"

namespace glint {

namespace {

constexpr std::string_view kAllMethods[] = {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"};
/// Allowed without being named.
constexpr std::string_view kSafeHeaders[] = {"Accept", "Accept-Language", "Content-Language", "Content-Type"};

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool contains_header(const std::vector<std::string>& list, std::string_view name) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& known) { return equal_ignoring_case(known, name); });
}

std::string joined(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& item : list) text += (text.empty() ? "" : ", ") + item;
  return text;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::vector<std::string> parse_json_strings(std::string_view text) {
  const Json value = Json::parse(text, nullptr, false);
  std::vector<std::string> list;
  bool good = value.is_array();
  for (size_t i = 0; good && i < value.size(); ++i) {
    good = value[i].is_string();
    if (good) list.push_back(value[i].get<std::string>());
    good = good && list.back().find_first_of("\r\n") == std::string::npos;
  }
  if (!good) fail(ErrorKind::bad_input, "expected a JSON list of strings such as [\"*\"], not ", text);
  return list;
}

Cors::Cors(CorsOptions options)
    : options_(std::move(options)),
      any_origin_(contains(options_.origins, "*")),
      any_header_(contains(options_.headers, "*")) {
  if (contains(options_.methods, "*"))
    options_.methods.assign(std::begin(kAllMethods), std::end(kAllMethods));
  if (any_header_) return;
  for (const std::string_view safe : kSafeHeaders) {
    if (!contains_header(options_.headers, safe)) options_.headers.emplace_back(safe);
  }
  std::sort(options_.headers.begin(), options_.headers.end());
}

bool Cors::allows_origin(std::string_view origin) const {
  return any_origin_ || contains(options_.origins, origin);
}

bool Cors::allows_headers(std::string_view requested) const {
  while (!any_header_ && !requested.empty()) {
    const auto comma = requested.find(',');
    const std::string_view name = trimmed(requested.substr(0, comma));
    if (!name.empty() && !contains_header(options_.headers, name)) return false;
    if (comma == std::string_view::npos) break;
    requested.remove_prefix(comma + 1);
  }
  return true;
}

std::vector<HttpHeader> Cors::answer_headers(const HttpRequest& request) const {
  const std::string_view origin = request.header("Origin");
  if (origin.empty()) return {};
  std::vector<HttpHeader> headers;
  // Browsers do not take the star together with credentials.
  const bool explicit_origin = !any_origin_ || options_.credentials;
  if (allows_origin(origin)) {
    headers.push_back({"Access-Control-Allow-Origin", explicit_origin ? std::string(origin) : "*"});
    if (options_.credentials) headers.push_back({"Access-Control-Allow-Credentials", "true"});
  }
  if (explicit_origin) headers.push_back({"Vary", "Origin"});
  return headers;
}

std::optional<HttpResponse> Cors::preflight(const HttpRequest& request) const {
  const std::string_view method = request.header("Access-Control-Request-Method");
  if (request.method != "OPTIONS" || method.empty()) return std::nullopt;
  const std::string_view headers = request.header("Access-Control-Request-Headers");
  std::vector<std::string> refused;
  if (!allows_origin(request.header("Origin"))) refused.emplace_back("origin");
  if (!contains(options_.methods, method)) refused.emplace_back("method");
  if (!allows_headers(headers)) refused.emplace_back("headers");
  HttpResponse response{200, "text/plain; charset=utf-8", "OK", {}, false};
  if (!refused.empty()) {
    response.status = 400;
    response.body = "Disallowed CORS " + joined(refused);
  }
  response.headers.push_back({"Access-Control-Allow-Methods", joined(options_.methods)});
  std::string allowed = joined(options_.headers);
  if (any_header_) allowed = headers.empty() ? "*" : std::string(headers);
  response.headers.push_back({"Access-Control-Allow-Headers", allowed});
  response.headers.push_back({"Access-Control-Max-Age", "600"});
  return response;
}

}  // namespace glint
