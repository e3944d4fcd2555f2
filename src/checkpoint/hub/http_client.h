// A small HTTP/1.1 client for downloads: one connection, one thread, bodies that are pulled piece by piece.
// Beast and OpenSSL stay in http_client.cc.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/hub/url.h"

namespace glint::hub {

/// The way to the server failed (name, connection, TLS, silence, an end in the middle). Worth another try,
/// but for a certificate that is refused.
class TransportError : public Error {
 public:
  TransportError(const std::string& message, bool retryable)
      : Error(ErrorKind::io, message), retryable_(retryable) {}
  [[nodiscard]] bool retryable() const { return retryable_; }

 private:
  bool retryable_;
};

struct HttpSettings {
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds silence_timeout{10'000};  // no byte for so long ends a request
  std::optional<Url> http_proxy;                      // of http:// addresses
  std::optional<Url> https_proxy;                     // of https:// addresses, by CONNECT
  std::vector<std::string> no_proxy;                  // hosts and domains, "*": all
  std::filesystem::path ca_file;                      // beside the system's certificates
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse {
  int status = 0;
  HttpHeaders headers;  // names in lower case
  /// The first header of that name (lower case); empty if there is none.
  [[nodiscard]] std::string header(std::string_view name) const;
};

/// Whether `settings.no_proxy` takes the host out: "*", the host itself, or a domain that it ends with.
bool goes_direct(const HttpSettings& settings, std::string_view host);

class HttpClient {
 public:
  explicit HttpClient(HttpSettings settings);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// GETs `url` and returns with the head of the answer, whatever its status. An open connection to the same
  /// server is used again. What is left of an earlier body is dropped. Redirects are not followed.
  HttpResponse get(const Url& url, const HttpHeaders& headers);

  /// The next bytes of the body, valid until the next call; empty at its end. Throws TransportError if the
  /// connection ends before the body does.
  std::span<const std::byte> read();

  /// The rest of the body; throws io if it exceeds `bytes_max`.
  std::string read_all(size_t bytes_max);

 private:
  class Connection;
  HttpSettings settings_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace glint::hub
