#include "server/web_page.h"

#include <cstdint>

#include "base/error.h"

namespace glint {

namespace {

constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri "
    "'none'; "
    "form-action 'none'; frame-ancestors 'none'";

const WebPart& part_of(std::string_view path) {
  constexpr std::string_view kFolder = "/page/";
  const std::string_view name = path.starts_with(kFolder) ? path.substr(kFolder.size()) : "index.html";
  for (const WebPart& part : web_parts()) {
    if (part.name == name) return part;
  }
  fail(ErrorKind::internal, "the page has no part called ", name);
}

std::string_view content_type(std::string_view name) {
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  return name.ends_with(".css") ? "text/css; charset=utf-8" : "text/html; charset=utf-8";
}

/// FNV-1a of the text, quoted.
std::string entity_tag(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  return cat('"', hash, '"');
}

}  // namespace

HttpResponse web_page(const HttpRequest& request) {
  const WebPart& part = part_of(request.path);
  const std::string tag = entity_tag(part.text);
  HttpResponse response{200, std::string(content_type(part.name)), std::string(part.text), {}, false};
  if (request.header("If-None-Match").find(tag) != std::string_view::npos)
    response = {304, "", "", {}, false};
  response.headers.push_back({"ETag", tag});
  response.headers.push_back({"Cache-Control", "no-cache"});
  response.headers.push_back({"Content-Security-Policy", std::string(kPolicy)});
  response.headers.push_back({"X-Content-Type-Options", "nosniff"});
  response.headers.push_back({"Referrer-Policy", "no-referrer"});
  return response;
}

}  // namespace glint
