// One non-blocking TCP connection to a server, with TLS if the address is https.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "bench/client/url.h"

namespace glint::bench {

/// A server's address, looked up once, and what TLS needs.
class Target {
 public:
  /// Throws not_found if the name does not resolve. `insecure`: certificates are not checked.
  explicit Target(Url url, bool insecure = false);
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  [[nodiscard]] const Url& url() const { return url_; }

 private:
  friend class Connection;
  struct Tls;
  Url url_;
  sockaddr_storage address_{};
  socklen_t address_bytes_ = 0;
  std::unique_ptr<Tls> tls_;
};

class Connection {
 public:
  enum class Io {
    done,        // `bytes` were moved
    want_read,   // try again when the socket can be read
    want_write,  // ... written
    closed,      // the other side has ended the stream
    failed       // error() says why
  };
  struct Result {
    Io io = Io::failed;
    size_t bytes = 0;
  };

  /// Begins to connect; the first write or read finds out whether it worked.
  explicit Connection(const Target& target);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] int handle() const { return handle_; }
  Result read(std::span<char> into);
  Result write(std::string_view bytes);
  /// Why a read failed. A failed write says nothing yet: what the server sent before may still be read.
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  struct TlsState;
  Result failed(std::string why);
  Result tls_result(int code);

  const Target& target_;
  int handle_ = -1;
  std::unique_ptr<TlsState> tls_;
  std::string error_, write_error_;
};

/// Waits until the connection can go on; false after `timeout_s`.
bool wait_for(const Connection& connection, Connection::Io wanted, double timeout_s);

/// Seconds of the monotonic clock.
double now_s();

}  // namespace glint::bench
