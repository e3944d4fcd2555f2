// The page at `/`: a chat and a live view, in plain HTML, CSS and JavaScript (src/server/page), without
// anything from elsewhere.
#pragma once

#include <string_view>
#include <vector>

#include "server/http.h"

namespace glint {

struct WebPart {
  std::string_view name;  // "index.html", "app.js"
  std::string_view text;
};

/// All parts; made by the build from src/server/page.
const std::vector<WebPart>& web_parts();

/// The part that request.path asks for: `/` is index.html, `/page/NAME` the others. 304 if the client's
/// If-None-Match names what there is. No script, style or connection but the server's own is allowed to it.
HttpResponse web_page(const HttpRequest& request);

}  // namespace glint
