#include "server/routes.h"

#include "base/error.h"

namespace glint {

namespace {

constexpr std::string_view kGet = "GET";
constexpr std::string_view kPost = "POST";
constexpr std::string_view kGetPost = "GET, POST";
constexpr std::string_view kGetDelete = "GET, DELETE";

constexpr RouteEntry kRoutes[] = {
    {"/v1/chat/completions", Route::chat, kPost},
    {"/v1/completions", Route::completions, kPost},
    {"/v1/messages", Route::messages, kPost, ErrorForm::anthropic},
    {"/v1/messages/count_tokens", Route::count_tokens, kPost, ErrorForm::anthropic},
    {"/v1/responses", Route::responses, kPost},
    {"/v1/responses/{id}", Route::response, kGetDelete},
    {"/v1/responses/{id}/cancel", Route::response_cancel, kPost},
    {"/v1/models", Route::models, kGet},
    {"/v1/models/{id}", Route::model, kGet},
    {"/tokenize", Route::tokenize, kPost},
    {"/detokenize", Route::detokenize, kPost},
    {"/abort_request", Route::abort, kPost},
    {"/abort_requests", Route::abort, kPost},
    {"/reset_prefix_cache", Route::reset_prefix_cache, kPost},
    {"/flush_cache", Route::flush_cache, kGetPost},
    {"/health", Route::health, kGet},
    {"/health/ready", Route::ready, kGet},
    {"/ping", Route::ping, kGetPost},
    {"/version", Route::version, kGet},
    {"/health_generate", Route::health_generate, kGet},
    {"/metrics", Route::metrics, kGet},
    {"/load", Route::load, kGet},
    {"/server_info", Route::server_info, kGet},
    {"/get_server_info", Route::server_info, kGet},
    {"/get_model_info", Route::model_info, kGet},
    {"/openapi.json", Route::openapi, kGet},
    {"/", Route::page, kGet},
    {"/page/app.js", Route::page, kGet},
    {"/page/live.js", Route::page, kGet},
    {"/page/markdown.js", Route::page, kGet},
    {"/page/style.css", Route::page, kGet},
};

constexpr std::string_view kId = "{id}";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size();
    const int high = escape ? hex_digit(text[i + 1]) : -1;
    const int low = escape ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      out += text[i];
    } else {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

/// What stands for {id} in `path`, if it has the form of the entry's.
std::optional<std::string_view> id_in(const RouteEntry& entry, std::string_view path) {
  const std::string_view pattern = entry.path;
  const size_t at = pattern.find(kId);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view tail = pattern.substr(at + kId.size());
  if (path.size() <= at + tail.size() || path.substr(0, at) != pattern.substr(0, at)) return std::nullopt;
  if (!path.ends_with(tail)) return std::nullopt;
  const std::string_view id = path.substr(at, path.size() - at - tail.size());
  // Names of models may have a slash.
  if (entry.route != Route::model && id.find('/') != std::string_view::npos) return std::nullopt;
  return id;
}

bool lists(std::string_view methods, std::string_view method) {
  for (size_t at = 0; at < methods.size();) {
    const size_t end = std::min(methods.find(", ", at), methods.size());
    if (methods.substr(at, end - at) == method) return true;
    at = end + 2;
  }
  return false;
}

}  // namespace

std::span<const RouteEntry> routes() {
  return kRoutes;
}

std::optional<RouteMatch> find_route(std::string_view path) {
  for (const RouteEntry& entry : kRoutes) {
    if (entry.path == path) return RouteMatch{&entry, {}};
  }
  // The longest pattern that fits: /v1/responses/{id}/cancel before /v1/responses/{id}.
  std::optional<RouteMatch> found;
  for (const RouteEntry& entry : kRoutes) {
    const auto id = id_in(entry, path);
    if (!id || (found && found->entry->path.size() >= entry.path.size())) continue;
    found = RouteMatch{&entry, percent_decoded(*id)};
  }
  return found;
}

bool allows(const RouteEntry& entry, std::string_view method) {
  return lists(entry.methods, method == "HEAD" ? "GET" : method);
}

std::string allowed_methods(const RouteEntry& entry) {
  std::string methods(entry.methods);
  if (const size_t get = methods.find("GET"); get != std::string::npos) methods.insert(get + 3, ", HEAD");
  return methods + ", OPTIONS";
}

}  // namespace glint
