#include "bench/client/connection.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"

namespace glint::bench {

struct Target::Tls {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  bool insecure = false;
  Tls() = default;
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
  ~Tls() { SSL_CTX_free(context); }
};

struct Connection::TlsState {
  SSL* ssl;
  explicit TlsState(SSL* made) : ssl(made) {}
  TlsState(const TlsState&) = delete;
  TlsState& operator=(const TlsState&) = delete;
  ~TlsState() { SSL_free(ssl); }
};

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

namespace {

/// Something listens there.
bool answers(const addrinfo& address) {
  constexpr int kPatience_ms = 2000;
  const int handle = socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (handle < 0) return false;
  int error = 0;
  if (connect(handle, address.ai_addr, address.ai_addrlen) != 0) {
    pollfd entry{handle, POLLOUT, 0};
    socklen_t bytes = sizeof error;
    if (errno != EINPROGRESS || poll(&entry, 1, kPatience_ms) <= 0 ||
        getsockopt(handle, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) {
      error = ETIMEDOUT;
    }
  }
  close(handle);
  return error == 0;
}

}  // namespace

Target::Target(Url url, bool insecure) : url_(std::move(url)) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(url_.host.c_str(), std::to_string(url_.port).c_str(), &hints, &found);
  if (code != 0) fail(ErrorKind::not_found, "cannot resolve ", url_.host, ": ", gai_strerror(code));
  const addrinfo* chosen = found;
  if (found->ai_next != nullptr) {  // "localhost" is ::1 and 127.0.0.1: the one that answers
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
      if (!answers(*one)) continue;
      chosen = one;
      break;
    }
  }
  std::memcpy(&address_, chosen->ai_addr, chosen->ai_addrlen);
  address_bytes_ = chosen->ai_addrlen;
  freeaddrinfo(found);
  if (!url_.tls) return;
  tls_ = std::make_unique<Tls>();
  tls_->insecure = insecure;
  SSL_CTX_set_default_verify_paths(tls_->context);
  SSL_CTX_set_verify(tls_->context, insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(tls_->context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

Target::~Target() = default;

Connection::Connection(const Target& target) : target_(target) {
  handle_ = socket(target.address_.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (handle_ < 0) {
    error_ = cat("cannot make a socket: ", std::strerror(errno));
    return;
  }
  const int on = 1;
  setsockopt(handle_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const void* generic = &target.address_;
  if (connect(handle_, static_cast<const sockaddr*>(generic), target.address_bytes_) != 0 &&
      errno != EINPROGRESS) {
    error_ = cat("cannot connect to ", target.url_.authority(), ": ", std::strerror(errno));
    return;
  }
  if (!target.tls_) return;
  tls_ = std::make_unique<TlsState>(SSL_new(target.tls_->context));
  SSL_set_fd(tls_->ssl, handle_);
  std::string name = target.url_.host;
  // SSL_set_tlsext_host_name without its old-style cast.
  SSL_ctrl(tls_->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.data());
  if (!target.tls_->insecure) SSL_set1_host(tls_->ssl, target.url_.host.c_str());
  SSL_set_connect_state(tls_->ssl);
}

Connection::~Connection() {
  if (handle_ >= 0) close(handle_);
}

Connection::Result Connection::failed(std::string why) {
  error_ = std::move(why);
  return {Io::failed, 0};
}

Connection::Result Connection::tls_result(int code) {
  switch (SSL_get_error(tls_->ssl, code)) {
    case SSL_ERROR_WANT_READ:
      return {Io::want_read, 0};
    case SSL_ERROR_WANT_WRITE:
      return {Io::want_write, 0};
    case SSL_ERROR_ZERO_RETURN:
      return {Io::closed, 0};
    default:
      break;
  }
  if (const long verdict = SSL_get_verify_result(tls_->ssl); verdict != X509_V_OK) {
    return failed(cat("the certificate of ", target_.url_.host,
                      " is refused: ", X509_verify_cert_error_string(verdict), " (--insecure accepts any)"));
  }
  const unsigned long reason = ERR_get_error();
  return failed(cat("TLS: ", reason != 0 ? ERR_reason_error_string(reason) : std::strerror(errno)));
}

Connection::Result Connection::read(std::span<char> into) {
  if (!error_.empty()) return {Io::failed, 0};
  if (tls_) {
    ERR_clear_error();
    const int got = SSL_read(tls_->ssl, into.data(), static_cast<int>(into.size()));
    return got > 0 ? Result{Io::done, static_cast<size_t>(got)} : tls_result(got);
  }
  const ssize_t got = recv(handle_, into.data(), into.size(), 0);
  if (got > 0) return {Io::done, static_cast<size_t>(got)};
  if (got == 0 && !write_error_.empty()) return failed(write_error_);
  if (got == 0) return {Io::closed, 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {Io::want_read, 0};
  if (!write_error_.empty()) return failed(write_error_);
  return failed(cat("reading from ", target_.url_.authority(), ": ", std::strerror(errno)));
}

Connection::Result Connection::write(std::string_view bytes) {
  if (!error_.empty()) return {Io::failed, 0};
  if (tls_) {
    ERR_clear_error();
    const int sent =
        SSL_write(tls_->ssl, bytes.data(), static_cast<int>(std::min<size_t>(bytes.size(), 1 << 20)));
    return sent > 0 ? Result{Io::done, static_cast<size_t>(sent)} : tls_result(sent);
  }
  const ssize_t sent = send(handle_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0) return {Io::done, static_cast<size_t>(sent)};
  // ENOTCONN: the connection is still being made.
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOTCONN)
    return {Io::want_write, 0};
  write_error_ = cat("cannot connect or write to ", target_.url_.authority(), ": ", std::strerror(errno));
  return {Io::failed, 0};
}

bool wait_for(const Connection& connection, Connection::Io wanted, double timeout_s) {
  pollfd entry{connection.handle(),
               static_cast<short>(wanted == Connection::Io::want_write ? POLLOUT : POLLIN), 0};
  const auto milliseconds = static_cast<int>(std::max(0.0, timeout_s) * 1000.0) + 1;
  return ::poll(&entry, 1, milliseconds) > 0;
}

}  // namespace glint::bench
