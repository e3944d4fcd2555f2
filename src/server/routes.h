// The table of the API's routes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/api_error.h"

namespace glint {

enum class Route {
  chat,
  completions,
  messages,
  count_tokens,
  responses,
  response,
  response_cancel,
  models,
  model,
  tokenize,
  detokenize,
  abort,
  reset_prefix_cache,
  flush_cache,
  health,
  ready,
  health_generate,
  ping,
  version,
  metrics,
  load,
  server_info,
  model_info,
  openapi,
  page
};

struct RouteEntry {
  /// As clients write it; "{id}" stands for one segment, at the end for everything that is left.
  std::string_view path;
  Route route;
  std::string_view methods;  // as the header Allow lists them, without OPTIONS
  /// What clients of this route expect an error to look like.
  ErrorForm errors = ErrorForm::openai;
};

/// All of them, in the order of the log.
std::span<const RouteEntry> routes();

struct RouteMatch {
  const RouteEntry* entry = nullptr;
  std::string id;  // what stands for {id}, percent signs decoded
};

/// The entry of `path`; exact entries win over those with an {id}.
std::optional<RouteMatch> find_route(std::string_view path);

/// HEAD is allowed where GET is.
bool allows(const RouteEntry& entry, std::string_view method);
/// "GET, HEAD, OPTIONS"
std::string allowed_methods(const RouteEntry& entry);

}  // namespace glint
