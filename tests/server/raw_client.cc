#include "raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "base/error.h"

namespace glint {

RawClient::RawClient(int port, int patience_ms)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), patience_ms_(patience_ms) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const void* generic = &address;
  if (connect(socket_, static_cast<const sockaddr*>(generic), sizeof address) != 0) {
    throw std::runtime_error("cannot connect");
  }
  const int one = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

RawClient::RawClient(const std::string& unix_path, int patience_ms)
    : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), patience_ms_(patience_ms) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  unix_path.copy(address.sun_path, sizeof address.sun_path - 1);
  const void* generic = &address;
  if (connect(socket_, static_cast<const sockaddr*>(generic), sizeof address) != 0) {
    throw std::runtime_error("cannot connect");
  }
}

RawClient::RawClient(int port, SSL_CTX* tls) : RawClient(port) {
  const timeval patience{patience_ms_ / 1000, (patience_ms_ % 1000) * 1000};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  tls_ = std::shared_ptr<SSL>(SSL_new(tls), SSL_free);
  SSL_set_fd(tls_.get(), socket_);
  ERR_clear_error();
  if (SSL_connect(tls_.get()) != 1) throw std::runtime_error("no TLS handshake");
}

RawClient::~RawClient() {
  close();
}
RawClient::RawClient(RawClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      tls_(std::move(other.tls_)),
      patience_ms_(other.patience_ms_),
      buffer_(std::move(other.buffer_)) {}

void RawClient::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void RawClient::reset() {
  const linger off{1, 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &off, sizeof off);
  close();
}

void RawClient::shutdown_write() const {
  shutdown(socket_, SHUT_WR);
}

bool RawClient::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    pollfd wait{socket_, POLLOUT, 0};
    if (poll(&wait, 1, patience_ms_) <= 0) return false;
    const ssize_t sent = tls_ ? SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size()))
                              : ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

long RawClient::receive(char* bytes, size_t count) const {
  if (tls_) return SSL_read(tls_.get(), bytes, static_cast<int>(count));
  return recv(socket_, bytes, count, 0);
}

bool RawClient::fill(int timeout_ms) {
  pollfd wait{socket_, POLLIN, 0};
  if (!(tls_ && SSL_pending(tls_.get()) > 0) && poll(&wait, 1, timeout_ms) <= 0) return false;
  char bytes[65536];
  const long got = receive(bytes, sizeof bytes);
  if (got <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(got));
  return true;
}

std::optional<std::string> RawClient::take(size_t bytes) {
  while (buffer_.size() < bytes) {
    if (!fill(patience_ms_)) return std::nullopt;
  }
  std::string out = buffer_.substr(0, bytes);
  buffer_.erase(0, bytes);
  return out;
}

std::optional<std::string> RawClient::take_line() {
  size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!fill(patience_ms_)) return std::nullopt;
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

bool RawClient::take_chunks(RawResponse& response) {
  for (;;) {
    const auto size = take_line();
    if (!size) return false;
    const auto bytes = static_cast<size_t>(std::strtoull(size->c_str(), nullptr, 16));
    const auto chunk = take(bytes);
    if (!chunk || !take_line()) return false;
    if (bytes == 0) return true;
    response.body += *chunk;
    response.chunks.push_back(*chunk);
  }
}

std::optional<RawResponse> RawClient::read(bool head_request) {
  RawResponse response;
  const auto status = take_line();
  if (!status || status->rfind("HTTP/1.1 ", 0) != 0) return std::nullopt;
  response.status = std::atoi(status->c_str() + 9);
  for (;;) {
    auto line = take_line();
    if (!line) return std::nullopt;
    if (line->empty()) break;
    const size_t colon = line->find(": ");
    if (colon == std::string::npos) return std::nullopt;
    std::string name = line->substr(0, colon);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    response.headers[name] = line->substr(colon + 2);
  }
  if (head_request || response.status == 100) return response;
  if (const auto length = response.headers.find("content-length"); length != response.headers.end()) {
    auto body = take(static_cast<size_t>(std::strtoull(length->second.c_str(), nullptr, 10)));
    if (!body) return std::nullopt;
    response.body = std::move(*body);
    return response;
  }
  if (response.headers.count("transfer-encoding") > 0) {
    if (!take_chunks(response)) return std::nullopt;
    return response;
  }
  while (fill(patience_ms_)) {
  }
  response.body = std::exchange(buffer_, {});
  return response;
}

std::string RawClient::read_until(std::string_view mark, int timeout_ms) {
  size_t at = 0;
  while ((at = buffer_.find(mark)) == std::string::npos) {
    if (!fill(timeout_ms)) return std::exchange(buffer_, {});
  }
  std::string out = buffer_.substr(0, at + mark.size());
  buffer_.erase(0, at + mark.size());
  return out;
}

bool RawClient::closed_within(int timeout_ms) {
  pollfd wait{socket_, POLLIN, 0};
  char bytes[65536];
  while (poll(&wait, 1, timeout_ms) > 0) {
    if (receive(bytes, sizeof bytes) <= 0) return true;
  }
  return false;
}

std::string post_text(std::string_view path, std::string_view body, std::string_view extra) {
  return cat("POST ", path,
             " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ", body.size(),
             "\r\n", extra, "\r\n", body);
}

std::string get_text(std::string_view path, std::string_view extra) {
  return cat("GET ", path, " HTTP/1.1\r\nHost: x\r\n", extra, "\r\n");
}

RawResponse fetch(int port, std::string_view request) {
  RawClient client(port);
  client.send(request);
  return client.read().value_or(RawResponse{});
}

std::vector<std::string> sse_events(std::string_view text) {
  std::vector<std::string> events;
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    const std::string_view event = text.substr(0, end);
    if (end == std::string_view::npos) {
      events.push_back("BAD unfinished: " + std::string(event));
      break;
    }
    text.remove_prefix(end + 2);
    if (event.rfind("data: ", 0) == 0 && event.find('\n') == std::string_view::npos) {
      events.emplace_back(event.substr(6));
    } else if (event.empty() || event[0] != ':') {
      events.push_back("BAD " + std::string(event));
    }
  }
  return events;
}

}  // namespace glint
