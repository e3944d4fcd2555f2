// The server's side of TLS: certificate, key and what is asked of clients.
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace glint {

struct TlsOptions {
  std::string certfile;  // PEM, the server's own first, then the chain; empty: no TLS
  std::string keyfile;   // PEM; empty: the key is in certfile too
  std::string keyfile_password;
  std::string ca_certs;  // PEM; whose clients are known
  int cert_reqs = 0;     // Python's ssl numbers: 0 none, 1 optional, 2 required
  bool refresh = false;  // read the files again when they change
  [[nodiscard]] bool on() const { return !certfile.empty(); }
};

/// Throws bad_input for combinations that cannot work; opens nothing.
void check_tls_options(const TlsOptions& options);

/// TLS 1.2 and 1.3, ALPN http/1.1, no renegotiation. Connections keep the context they began with.
class TlsContext {
 public:
  /// Throws bad_input, naming the flag and the file, if one cannot be read or they do not belong together.
  explicit TlsContext(const TlsOptions& options);
  [[nodiscard]] SSL_CTX* get() const { return context_.get(); }

 private:
  struct Free {
    void operator()(SSL_CTX* context) const;
  };
  std::unique_ptr<SSL_CTX, Free> context_;
};

/// The context for new connections. One thread at a time.
class TlsStore {
 public:
  /// Throws as TlsContext does.
  explicit TlsStore(TlsOptions options);
  [[nodiscard]] const std::shared_ptr<const TlsContext>& current() const { return current_; }
  /// Reads the files again if they have changed since the last call. A set that does not fit together (one
  /// file is written after the other) leaves the old context in place, with a warning. True: it is new.
  bool refresh();

 private:
  /// Changes whenever a file is replaced or rewritten.
  using Stamp = std::vector<long long>;
  [[nodiscard]] Stamp stamp() const;

  TlsOptions options_;
  Stamp stamp_;
  std::shared_ptr<const TlsContext> current_;
};

}  // namespace glint
