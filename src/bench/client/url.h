// http://host:port/prefix, taken apart.
#pragma once

#include <string>
#include <string_view>

namespace glint::bench {

struct Url {
  bool tls = false;  // https
  std::string host;  // without the brackets of an IPv6 address
  int port = 80;
  std::string prefix;  // "/v1" or "": what stands before every path, without a slash at its end

  /// Throws bad_input for what is no http or https address; a bare "host:port" counts as http.
  static Url parse(std::string_view text);
  /// "host:port" as the Host header wants it: no port if it is the scheme's own.
  [[nodiscard]] std::string authority() const;
  /// "http://host:port/prefix"
  [[nodiscard]] std::string text() const;
};

}  // namespace glint::bench
