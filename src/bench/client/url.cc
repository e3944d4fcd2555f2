#include "bench/client/url.h"

#include <charconv>

#include "base/error.h"

namespace glint::bench {

Url Url::parse(std::string_view text) {
  Url url;
  std::string_view rest = text;
  if (const size_t scheme = rest.find("://"); scheme != std::string_view::npos) {
    const std::string_view name = rest.substr(0, scheme);
    if (name != "http" && name != "https") {
      fail(ErrorKind::bad_input, text, ": expected http://HOST:PORT or https://HOST:PORT");
    }
    url.tls = name == "https";
    rest.remove_prefix(scheme + 3);
  }
  url.port = url.tls ? 443 : 80;
  const size_t slash = std::min(rest.find('/'), rest.size());
  url.prefix = rest.substr(slash);
  while (!url.prefix.empty() && url.prefix.back() == '/') url.prefix.pop_back();
  std::string_view authority = rest.substr(0, slash);
  const size_t bracket = authority.rfind(']');
  const size_t colon = authority.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    const std::string_view port = authority.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
    if (error != std::errc() || end != port.data() + port.size() || url.port < 1 || url.port > 65535) {
      fail(ErrorKind::bad_input, text, ": expected a port from 1 to 65535, got ", port);
    }
    authority = authority.substr(0, colon);
  }
  if (authority.starts_with('[') && authority.ends_with(']'))
    authority = authority.substr(1, authority.size() - 2);
  if (authority.empty() || authority.find_first_of(" @?#") != std::string_view::npos) {
    fail(ErrorKind::bad_input, text, ": expected http://HOST:PORT or https://HOST:PORT");
  }
  url.host = authority;
  return url;
}

std::string Url::authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : cat("[", host, "]");
  return port == (tls ? 443 : 80) ? name : cat(name, ":", port);
}

std::string Url::text() const {
  return cat(tls ? "https://" : "http://", authority(), prefix);
}

}  // namespace glint::bench
