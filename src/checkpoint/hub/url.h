// http:// and https:// addresses, as far as a download needs them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace glint::hub {

struct Url {
  bool tls = false;
  std::string host;  // lower case, without the brackets of IPv6
  uint16_t port = 0;
  std::string target = "/";  // path and query
  std::string user_info;     // "name:password" as written; of proxies alone

  /// "https://host" or "https://host:8443": what must be equal for a token to be sent.
  [[nodiscard]] std::string origin() const;
  /// "host" or "[::1]".
  [[nodiscard]] std::string bracketed_host() const;
  /// "host" or "host:8443", brackets included: the Host header.
  [[nodiscard]] std::string host_header() const;
  [[nodiscard]] std::string text() const { return origin() + target; }
};

/// Throws bad_input naming `what` for anything but http(s)://[user@]host[:port][/path][?query] in printable
/// ASCII. A fragment is dropped.
Url parse_url(std::string_view text, std::string_view what);

/// `location` of a redirect from `base`: a whole address, "//host/path", "/path" or a relative path.
Url join_url(const Url& base, std::string_view location);

}  // namespace glint::hub
