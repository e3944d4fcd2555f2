// A blocking HTTP client over a bare socket, for tests that must control every byte.
#pragma once

#include <openssl/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glint {

struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
  std::vector<std::string> chunks;             // of a chunked answer
};

class RawClient {
 public:
  /// `patience_ms`: how long send() and read() wait for the peer.
  explicit RawClient(int port, int patience_ms = 10'000);
  /// Over a Unix socket.
  explicit RawClient(const std::string& unix_path, int patience_ms = 10'000);
  /// Shakes hands. Throws if the server does not.
  RawClient(int port, SSL_CTX* tls);
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  /// False if the peer does not take everything in time or has reset the connection.
  bool send(std::string_view bytes) const;
  /// The next answer; nothing if the connection ends or no byte comes in time. A 100 answer is returned as
  /// one of its own.
  std::optional<RawResponse> read(bool head_request = false);
  /// Up to and including `mark`; shorter if the connection ends or `timeout_ms` pass first.
  std::string read_until(std::string_view mark, int timeout_ms = 10'000);
  /// So many bytes, or fewer if the connection ends or nothing comes in time.
  std::string take_exactly(size_t bytes) { return take(bytes).value_or(std::string()); }
  /// True once the peer has closed its side and nothing is left to read.
  bool closed_within(int timeout_ms);
  void shutdown_write() const;
  void reset();  // closes with RST
  void close();
  [[nodiscard]] int handle() const { return socket_; }
  [[nodiscard]] SSL* tls() const { return tls_.get(); }

 private:
  bool fill(int timeout_ms);
  std::optional<std::string> take_line();
  std::optional<std::string> take(size_t bytes);
  bool take_chunks(RawResponse& response);

  [[nodiscard]] long receive(char* bytes, size_t count) const;

  int socket_ = -1;
  std::shared_ptr<SSL> tls_;
  int patience_ms_;
  std::string buffer_;
};

/// "POST path HTTP/1.1" with Host, Content-Type: application/json, Content-Length and `extra` header lines.
std::string post_text(std::string_view path, std::string_view body, std::string_view extra = "");
std::string get_text(std::string_view path, std::string_view extra = "");

/// One request on a connection of its own.
RawResponse fetch(int port, std::string_view request);

/// The payloads of the "data: " lines of an SSE text, in order; comments are left out. Anything else is an
/// error of the text and yields an entry that begins with "BAD ".
std::vector<std::string> sse_events(std::string_view text);

}  // namespace glint
