#include "server/http_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/error.h"

namespace glint {

namespace {

constexpr size_t kHeadBytesMax = size_t{64} << 10;
constexpr size_t kPieceBytes = 16384;

bool is_token_safe(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7F; });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

int parse_port(std::string_view digits, std::string_view url) {
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port < 1 || port > 65535) {
    fail(ErrorKind::bad_input, url, ": the port ", digits, " is not one of 1 to 65535");
  }
  return port;
}

std::string head_of(const HttpUrl& url, const ClientRequest& request) {
  std::string text = cat(request.method, " ", request.target, " HTTP/1.1\r\nHost: ", url.authority(),
                         "\r\nConnection: close\r\nUser-Agent: glint\r\n");
  for (const HttpHeader& header : request.headers) text += cat(header.name, ": ", header.value, "\r\n");
  if (!request.body.empty() || request.method == "POST")
    text += cat("Content-Length: ", request.body.size(), "\r\n");
  return text + "\r\n" + request.body;
}

}  // namespace

std::string HttpUrl::authority() const {
  return cat(host.find(':') == std::string::npos ? host : cat("[", host, "]"), ":", port);
}

HttpUrl parse_http_url(std::string_view text) {
  if (text.substr(0, 8) == "https://") {
    fail(ErrorKind::unsupported, text,
         ": https is not spoken here; put a TLS proxy in between, or use http://");
  }
  if (text.substr(0, 7) != "http://")
    fail(ErrorKind::bad_input, text, ": expected http://HOST[:PORT][/PATH]");
  std::string_view rest = text.substr(7);
  HttpUrl url;
  const size_t slash = std::min(rest.find('/'), rest.size());
  url.path = rest.substr(slash);
  while (!url.path.empty() && url.path.back() == '/') url.path.pop_back();
  std::string_view authority = rest.substr(0, slash);
  if (authority.find('@') != std::string_view::npos) {
    fail(ErrorKind::bad_input, "the URL holds a user name; a key goes into --api-key or OPENAI_API_KEY");
  }
  size_t colon = authority.rfind(':');
  if (!authority.empty() && authority.front() == '[') {
    const size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) fail(ErrorKind::bad_input, text, ": '[' without ']'");
    url.host = authority.substr(1, bracket - 1);
    colon = bracket + 1 < authority.size() && authority[bracket + 1] == ':' ? bracket + 1
                                                                            : std::string_view::npos;
  } else {
    url.host = authority.substr(0, colon);
  }
  if (colon != std::string_view::npos) url.port = parse_port(authority.substr(colon + 1), text);
  if (url.host.empty() || !is_token_safe(url.host) || !is_token_safe(url.path) ||
      url.path.find_first_of("?#") != std::string::npos) {
    fail(ErrorKind::bad_input, text, ": expected http://HOST[:PORT][/PATH]");
  }
  return url;
}

HttpCall::HttpCall(const HttpUrl& url, const ClientRequest& request, int cancel_fd,
                   const ClientTimeouts& timeouts)
    : place_(cat("http://", url.authority())), timeouts_(timeouts), cancel_fd_(cancel_fd) {
  for (const HttpHeader& header : request.headers) {
    if (header.value.find_first_of("\r\n") != std::string::npos) {
      fail(ErrorKind::bad_input, "the header ", header.name, " holds a line break");
    }
  }
  try {
    connect(url);
    send_all(head_of(url, request));
    if (!cancelled_) read_head();
  } catch (...) {
    if (socket_ >= 0) ::close(socket_);
    throw;
  }
}

HttpCall::~HttpCall() {
  if (socket_ >= 0) ::close(socket_);
}

void HttpCall::broken(const std::string& why) const {
  fail(ErrorKind::io, place_, ": ", why);
}

void HttpCall::connect(const HttpUrl& url) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = ::getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &list);
  if (code != 0) broken(::gai_strerror(code));
  std::string why = "no address";
  for (const addrinfo* entry = list; entry != nullptr && socket_ < 0 && !cancelled_; entry = entry->ai_next) {
    socket_ = ::socket(entry->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket_ < 0) continue;
    int error = ::connect(socket_, entry->ai_addr, entry->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      try {
        wait(POLLOUT, timeouts_.connect);
        socklen_t size = sizeof error;
        ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
      } catch (const Error&) {
        error = ETIMEDOUT;
      }
    }
    if (error == 0 || cancelled_) continue;
    why = std::strerror(error);
    ::close(socket_);
    socket_ = -1;
  }
  ::freeaddrinfo(list);
  if (socket_ < 0 && !cancelled_) broken(cat("no connection: ", why));
  const int on = 1;
  if (socket_ >= 0) ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool HttpCall::wait(short events, std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    std::array<pollfd, 2> set{{{socket_, events, 0}, {cancel_fd_, POLLIN, 0}}};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    const int ready = ::poll(set.data(), set.size(), static_cast<int>(std::max<int64_t>(0, left)));
    if (ready < 0 && errno != EINTR) broken(std::strerror(errno));
    if (ready > 0 && set[1].revents != 0) {
      cancelled_ = true;
      return false;
    }
    if (ready > 0) return true;
    if (ready == 0) broken(cat("nothing came for ", timeout.count() / 1000, " s"));
  }
}

void HttpCall::send_all(std::string_view bytes) {
  while (!bytes.empty() && !cancelled_) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait(POLLOUT, timeouts_.silence);
    } else if (errno != EINTR) {
      // It may have refused the request and said why: that is read next.
      if (errno == EPIPE || errno == ECONNRESET) return;
      broken(std::strerror(errno));
    }
  }
}

bool HttpCall::receive() {
  std::array<char, kPieceBytes> bytes;
  for (;;) {
    if (!wait(POLLIN, timeouts_.silence)) return false;
    const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (got > 0) in_.append(bytes.data(), static_cast<size_t>(got));
    if (got >= 0) return got > 0;
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) broken(std::strerror(errno));
  }
}

void HttpCall::read_head() {
  size_t end = std::string::npos;
  while ((end = in_.find("\r\n\r\n")) == std::string::npos) {
    if (in_.size() > kHeadBytesMax) broken("the answer's head does not end");
    if (receive()) continue;
    if (cancelled_) return;
    broken("the server closed the connection without an answer");
  }
  const std::string head = in_.substr(0, end + 2);
  in_.erase(0, end + 4);
  if (head.size() < 13 || head.compare(0, 7, "HTTP/1.") != 0) broken("the answer is not HTTP/1.1");
  status_ = std::atoi(head.c_str() + 9);
  for (size_t at = head.find('\n') + 1; at < head.size();) {
    const size_t line_end = head.find('\n', at);
    const std::string_view line = std::string_view(head).substr(at, line_end - at);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos)
      headers_.push_back({std::string(line.substr(0, colon)), std::string(trimmed(line.substr(colon + 1)))});
    at = line_end + 1;
  }
  chunked_ = equal_ignoring_case(header("Transfer-Encoding"), "chunked");
  const std::string_view length = header("Content-Length");
  if (!chunked_ && length.empty()) until_close_ = true;
  if (!chunked_ && !length.empty()) {
    const auto [last, error] = std::from_chars(length.data(), length.data() + length.size(), left_);
    if (error != std::errc() || last != length.data() + length.size())
      broken("the answer's Content-Length is no number");
  }
}

std::string_view HttpCall::header(std::string_view name) const {
  for (const HttpHeader& header : headers_) {
    if (equal_ignoring_case(header.name, name)) return header.value;
  }
  return {};
}

std::string HttpCall::take(size_t bytes) {
  std::string piece = in_.substr(0, bytes);
  in_.erase(0, bytes);
  return piece;
}

std::string HttpCall::read() {
  if (ended_ || cancelled_) return {};
  if (chunked_) return read_chunk();
  if (until_close_ || left_ > 0) {
    if (in_.empty() && !receive()) {
      if (!cancelled_ && !until_close_) broken("the connection broke before the answer's end");
      ended_ = true;
      return {};
    }
    const std::string piece = take(until_close_ ? in_.size() : std::min(left_, in_.size()));
    if (!until_close_) left_ -= piece.size();
    return piece;
  }
  ended_ = true;
  return {};
}

std::string HttpCall::read_chunk() {
  const auto more = [&] {
    if (receive()) return true;
    if (!cancelled_) broken("the connection broke before the answer's end");
    return false;
  };
  if (!in_chunk_) {
    if (after_chunk_) {
      while (in_.size() < 2) {
        if (!more()) return {};
      }
      if (in_.compare(0, 2, "\r\n") != 0) broken("a chunk is longer than it said");
      in_.erase(0, 2);
      after_chunk_ = false;
    }
    size_t end = std::string::npos;
    while ((end = in_.find("\r\n")) == std::string::npos) {
      if (in_.size() > kHeadBytesMax) broken("a chunk's head does not end");
      if (!more()) return {};
    }
    const auto [last, error] = std::from_chars(in_.data(), in_.data() + end, left_, 16);
    if (error != std::errc() || (last != in_.data() + end && *last != ';' && *last != ' '))
      broken("a chunk's length is no number");
    in_.erase(0, end + 2);
    in_chunk_ = true;
    if (left_ == 0) {  // what may follow, trailers, is of no interest, and the connection closes
      ended_ = true;
      return {};
    }
  }
  if (in_.empty() && !more()) return {};
  const std::string piece = take(std::min(left_, in_.size()));
  left_ -= piece.size();
  in_chunk_ = left_ > 0;
  after_chunk_ = !in_chunk_;
  return piece;
}

std::string HttpCall::read_all(size_t bytes_max) {
  std::string all;
  for (std::string piece = read(); !piece.empty(); piece = read()) {
    all += piece;
    if (all.size() > bytes_max) broken("the answer is too long");
  }
  return all;
}

}  // namespace glint
