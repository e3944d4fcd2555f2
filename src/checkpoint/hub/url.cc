#include "checkpoint/hub/url.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "checkpoint/hub/encodings.h"

namespace glint::hub {

namespace {

constexpr uint16_t kHttpPort = 80;
constexpr uint16_t kHttpsPort = 443;

bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

[[noreturn]] void refuse(std::string_view text, std::string_view what) {
  fail(ErrorKind::bad_input, what, " ", printable(text) ? text : "(unprintable)",
       ": expected http://host[:port][/path] or https://host[:port][/path]");
}

/// Takes "host:port" apart, brackets removed.
void set_authority(Url& url, std::string_view authority, std::string_view text, std::string_view what) {
  if (const size_t at = authority.rfind('@'); at != std::string_view::npos) {
    url.user_info = authority.substr(0, at);
    authority.remove_prefix(at + 1);
  }
  std::string_view port;
  if (!authority.empty() && authority.front() == '[') {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) refuse(text, what);
    url.host = lower_case(authority.substr(1, end - 1));
    port = authority.substr(end + 1);
  } else {
    const size_t colon = std::min(authority.find(':'), authority.size());
    url.host = lower_case(authority.substr(0, colon));
    port = authority.substr(colon);
  }
  url.port = url.tls ? kHttpsPort : kHttpPort;
  if (url.host.empty()) refuse(text, what);
  if (port.empty() || port == ":") return;
  if (port.front() != ':') refuse(text, what);
  port.remove_prefix(1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
  if (error != std::errc() || end != port.data() + port.size() || url.port == 0) refuse(text, what);
}

}  // namespace

std::string Url::bracketed_host() const {
  return host.find(':') == std::string::npos ? host : cat("[", host, "]");
}

std::string Url::host_header() const {
  std::string text = bracketed_host();
  if (port != (tls ? kHttpsPort : kHttpPort)) text += cat(":", port);
  return text;
}

std::string Url::origin() const {
  return (tls ? "https://" : "http://") + host_header();
}

Url parse_url(std::string_view text, std::string_view what) {
  Url url;
  std::string_view rest = text;
  const size_t scheme = text.find("://");
  if (!printable(text) || scheme == std::string_view::npos) refuse(text, what);
  const std::string name = lower_case(text.substr(0, scheme));
  if (name != "http" && name != "https") refuse(text, what);
  url.tls = name == "https";
  rest.remove_prefix(scheme + 3);
  rest = rest.substr(0, rest.find('#'));
  const size_t end = std::min(rest.find_first_of("/?"), rest.size());
  set_authority(url, rest.substr(0, end), text, what);
  const std::string_view target = rest.substr(end);
  url.target = target.empty() || target.front() == '?' ? cat("/", target) : std::string(target);
  return url;
}

Url join_url(const Url& base, std::string_view location) {
  location = location.substr(0, location.find('#'));
  if (location.find("://") < location.find_first_of("/?")) return parse_url(location, "redirect to");
  if (location.substr(0, 2) == "//") {
    return parse_url(cat(base.tls ? "https:" : "http:", location), "redirect to");
  }
  Url url = base;
  if (!printable(location)) refuse(location, "redirect to");
  if (location.substr(0, 1) == "/") {
    url.target = location;
  } else if (location.empty() || location.front() == '?') {
    url.target = base.target.substr(0, base.target.find('?')) + std::string(location);
  } else {
    const std::string path = base.target.substr(0, base.target.find('?'));
    url.target = path.substr(0, path.rfind('/') + 1) + std::string(location);
  }
  return url;
}

}  // namespace glint::hub
