#include "server/otlp_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "base/error.h"

namespace glint {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSliceMs = 100;             // how soon cancel() is noticed
constexpr size_t kAnswerBytesMax = 4096;  // its beginning is enough

[[noreturn]] void refuse_url(std::string url) {
  std::replace_if(
      url.begin(), url.end(), [](char c) { return c < ' '; }, '?');
  fail(ErrorKind::bad_input, "'", url,
       "': expected http://HOST:PORT/v1/traces (OTLP over HTTP; gRPC is not spoken)");
}

/// Waits for a socket in slices, so that the end of time and a cancellation are both seen.
class Patience {
 public:
  Patience(std::chrono::milliseconds timeout, const std::atomic<bool>& cancelled)
      : end_(Clock::now() + timeout), cancelled_(cancelled) {}
  [[nodiscard]] bool over() const { return cancelled_ || Clock::now() >= end_; }
  /// False when time is over.
  [[nodiscard]] bool wait(int socket, short events) const {
    while (!over()) {
      pollfd wait{socket, events, 0};
      if (poll(&wait, 1, kSliceMs) > 0) return true;
    }
    return false;
  }

 private:
  Clock::time_point end_;
  const std::atomic<bool>& cancelled_;
};

struct AddressFree {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

struct SocketEnd {
  int handle;
  ~SocketEnd() { close(handle); }
};

SSL_CTX* trusting_context() {
  static SSL_CTX* const context = [] {
    SSL_CTX* made = SSL_CTX_new(TLS_client_method());
    const char* file = std::getenv("OTEL_EXPORTER_OTLP_CERTIFICATE");
    if (file == nullptr || SSL_CTX_load_verify_file(made, file) != 1) SSL_CTX_set_default_verify_paths(made);
    SSL_CTX_set_verify(made, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION);
    return made;
  }();
  return context;
}

/// A bare or a TLS connection; each call returns bytes, 0 at the end, or -1 with what to wait for.
class Channel {
 public:
  Channel(int socket, const OtlpEndpoint& endpoint) : socket_(socket), ssl_(nullptr, SSL_free) {
    if (!endpoint.tls) return;
    ssl_.reset(SSL_new(trusting_context()));
    SSL_set_fd(ssl_.get(), socket);
    std::string name = endpoint.host;  // as SSL_set_tlsext_host_name, which casts
    SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.data());
    SSL_set1_host(ssl_.get(), endpoint.host.c_str());
    SSL_set_connect_state(ssl_.get());
  }
  long write(std::string_view text, short& wanted) {
    if (ssl_) return result(SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())), wanted);
    wanted = POLLOUT;
    return checked(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL), wanted);
  }
  long read(char* bytes, size_t count, short& wanted) {
    if (ssl_) return result(SSL_read(ssl_.get(), bytes, static_cast<int>(count)), wanted);
    wanted = POLLIN;
    return checked(::recv(socket_, bytes, count, 0), wanted);
  }

 private:
  /// wanted = 0: it cannot go on.
  static long checked(long bytes, short& wanted) {
    if (bytes < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) wanted = 0;
    return bytes;
  }
  long result(int returned, short& wanted) {
    if (returned > 0) return returned;
    const int error = SSL_get_error(ssl_.get(), returned);
    ERR_clear_error();
    if (error == SSL_ERROR_ZERO_RETURN) return 0;
    wanted = 0;
    if (error == SSL_ERROR_WANT_READ) wanted = POLLIN;
    if (error == SSL_ERROR_WANT_WRITE) wanted = POLLOUT;
    return -1;
  }

  int socket_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
};

int status_of(std::string_view answer) {
  if (answer.substr(0, 7) != "HTTP/1." || answer.size() < 12) return 0;
  int status = 0;
  std::from_chars(answer.data() + 9, answer.data() + 12, status);
  return status;
}

}  // namespace

OtlpEndpoint parse_otlp_endpoint(std::string_view url) {
  OtlpEndpoint endpoint;
  std::string_view rest = url;
  if (rest.substr(0, 7) == "http://") {
    rest.remove_prefix(7);
  } else if (rest.substr(0, 8) == "https://") {
    rest.remove_prefix(8);
    endpoint.tls = true;
    endpoint.port = 443;
  } else {
    refuse_url(std::string(url));
  }
  const auto slash = rest.find('/');
  endpoint.authority = rest.substr(0, slash);
  endpoint.path = slash == std::string_view::npos ? "/" : rest.substr(slash);
  if (endpoint.path == "/") endpoint.path = "/v1/traces";
  std::string_view host = endpoint.authority;
  const auto bracket = host.rfind(']');
  const auto colon = host.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    const std::string_view port = host.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
    if (error != std::errc() || end != port.data() + port.size()) refuse_url(std::string(url));
    host = host.substr(0, colon);
  }
  if (!host.empty() && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const bool clean =
      std::none_of(url.begin(), url.end(), [](char c) { return c <= ' ' || c > '~' || c == '@'; });
  if (host.empty() || !clean || endpoint.port < 1 || endpoint.port > 65535) refuse_url(std::string(url));
  endpoint.host = host;
  return endpoint;
}

void OtlpClient::cancel() {
  cancelled_ = true;
}

int OtlpClient::connect_in_time(std::string& reason) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(endpoint_.host.c_str(), std::to_string(endpoint_.port).c_str(), &hints, &found);
      error != 0) {
    reason = gai_strerror(error);
    return -1;
  }
  const std::unique_ptr<addrinfo, AddressFree> list(found);
  const Patience patience(timeout_, cancelled_);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    const int handle = ::socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                                address->ai_protocol);
    if (handle < 0) continue;
    int error = connect(handle, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS && patience.wait(handle, POLLOUT)) {
      socklen_t bytes = sizeof error;
      getsockopt(handle, SOL_SOCKET, SO_ERROR, &error, &bytes);
    }
    if (error == 0) return handle;
    reason = error == EINPROGRESS ? "no connection in time" : std::generic_category().message(error);
    close(handle);
  }
  return -1;
}

int OtlpClient::exchange(int socket, const std::string& request, std::string& reason) const {
  const Patience patience(timeout_, cancelled_);
  Channel channel(socket, endpoint_);
  reason = "the connection ended";
  short wanted = 0;
  std::string_view rest = request;
  std::string answer;
  while (answer.size() < kAnswerBytesMax && (answer.empty() || answer.find("\r\n") == std::string::npos)) {
    char bytes[1024];
    const long moved = rest.empty() ? channel.read(bytes, sizeof bytes, wanted) : channel.write(rest, wanted);
    if (moved > 0 && rest.empty()) answer.append(bytes, static_cast<size_t>(moved));
    if (moved > 0 && !rest.empty()) rest.remove_prefix(static_cast<size_t>(moved));
    if (moved == 0 || (moved < 0 && wanted == 0)) break;
    if (moved < 0 && !patience.wait(socket, wanted)) {
      reason = "no answer in time";
      return 0;
    }
  }
  return status_of(answer);
}

int OtlpClient::post(std::string_view content_type, std::string_view body, std::string& reason) {
  const int socket = connect_in_time(reason);
  if (socket < 0) return 0;
  const SocketEnd end{socket};
  std::string request = cat("POST ", endpoint_.path, " HTTP/1.1\r\nHost: ", endpoint_.authority,
                            "\r\nUser-Agent: glint\r\nContent-Type: ", content_type,
                            "\r\nContent-Length: ", body.size(), "\r\nConnection: close\r\n");
  for (const auto& [name, value] : headers_) request += cat(name, ": ", value, "\r\n");
  request += "\r\n";
  request += body;
  return exchange(socket, request, reason);
}

}  // namespace glint
