// A small HTTP/1.1 client: one request a connection, the answer's body piece by piece as it comes. Plain http
// only.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace glint {

/// "http://host[:port][/path]", "http://[::1]:8000".
struct HttpUrl {
  std::string host;  // without brackets
  int port = 80;
  std::string path;  // "" or "/..." without a '/' at its end

  /// "host:port" as the header wants it.
  [[nodiscard]] std::string authority() const;
};

/// Throws bad_input for what is no such URL, unsupported for https.
HttpUrl parse_http_url(std::string_view text);

struct ClientRequest {
  std::string method = "GET";
  std::string target = "/";
  std::vector<HttpHeader> headers;  // besides Host, Connection and Content-Length
  std::string body;
};

struct ClientTimeouts {
  std::chrono::milliseconds connect{10'000};
  std::chrono::milliseconds silence{600'000};  // without a byte from the server
};

/// An answer as it arrives. The constructor returns when the head is there. Throws io, naming the address, if
/// there is no connection, if it breaks before the end or stays silent too long, and for what is not HTTP.
class HttpCall {
 public:
  /// As soon as `cancel_fd` (-1: none) is readable the call ends as if the server had closed it: cancelled()
  /// is true then.
  HttpCall(const HttpUrl& url, const ClientRequest& request, int cancel_fd = -1,
           const ClientTimeouts& timeouts = {});
  ~HttpCall();
  HttpCall(const HttpCall&) = delete;
  HttpCall& operator=(const HttpCall&) = delete;

  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] bool cancelled() const { return cancelled_; }
  [[nodiscard]] std::string_view header(std::string_view name) const;

  /// The next piece of the body, not empty; an empty text at its end and after a cancellation.
  std::string read();
  /// The rest of the body. Throws io beyond `bytes_max`.
  std::string read_all(size_t bytes_max = size_t{64} << 20);

 private:
  void connect(const HttpUrl& url);
  void send_all(std::string_view bytes);
  /// Waits until the socket is ready for `events`. False: cancelled.
  bool wait(short events, std::chrono::milliseconds timeout);
  /// Appends to in_. False at the connection's end and after a cancellation.
  bool receive();
  void read_head();
  std::string read_chunk();
  [[nodiscard]] std::string take(size_t bytes);
  [[noreturn]] void broken(const std::string& why) const;

  std::string place_;
  ClientTimeouts timeouts_;
  int cancel_fd_;
  int socket_ = -1;
  int status_ = 0;
  std::vector<HttpHeader> headers_;
  std::string in_;  // received, not handed out
  bool cancelled_ = false;
  bool chunked_ = false;
  bool until_close_ = false;
  bool ended_ = false;
  size_t left_ = 0;  // of the body, or of its chunk
  bool in_chunk_ = false;
  bool after_chunk_ = false;  // its CR LF comes next
};

}  // namespace glint
