#include "server/http_wire.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace glint {

namespace {

bool would_wait(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

int handle_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
}

int bio_write(BIO* bio, const char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(handle_of(bio), bytes, static_cast<size_t>(count), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && would_wait(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int bio_read(BIO* bio, char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(handle_of(bio), bytes, static_cast<size_t>(count), MSG_DONTWAIT);
  if (got < 0 && would_wait(errno)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long bio_control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/// OpenSSL's own socket BIO would raise SIGPIPE and needs a socket that never waits.
const BIO_METHOD* socket_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "glint socket");
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  return method;
}

}  // namespace

void Wire::Free::operator()(SSL* ssl) const {
  SSL_free(ssl);
}

Wire::Wire(StreamSocket socket, std::shared_ptr<const TlsContext> tls)
    : socket_(std::move(socket)), tls_(std::move(tls)) {
  if (!tls_) return;
  ssl_.reset(SSL_new(tls_->get()));
  BIO* bio = BIO_new(socket_method());
  GLINT_CHECK(ssl_ != nullptr && bio != nullptr);
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(socket_.native_handle())));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);  // takes it
  SSL_set_accept_state(ssl_.get());
}

/// Of a call that has not succeeded.
Wire::Result Wire::tls_result(int returned) {
  switch (SSL_get_error(ssl_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
      return {Status::want_read};
    case SSL_ERROR_WANT_WRITE:
      return {Status::want_write};
    case SSL_ERROR_ZERO_RETURN:
      return {Status::ended};
    default:
      ERR_clear_error();
      return {Status::failed};
  }
}

Wire::Result Wire::handshake() {
  if (!ssl_) return {};
  ERR_clear_error();
  const int returned = SSL_do_handshake(ssl_.get());
  return returned == 1 ? Result{} : tls_result(returned);
}

Wire::Result Wire::read(void* bytes, size_t bytes_max) {
  if (ssl_) {
    ERR_clear_error();
    size_t got = 0;
    const int returned = SSL_read_ex(ssl_.get(), bytes, bytes_max, &got);
    return returned == 1 ? Result{Status::done, got} : tls_result(returned);
  }
  const ssize_t got = ::recv(socket_.native_handle(), bytes, bytes_max, MSG_DONTWAIT);
  if (got > 0) return {Status::done, static_cast<size_t>(got)};
  if (got == 0) return {Status::ended};
  return {would_wait(errno) ? Status::want_read : Status::failed};
}

Wire::Result Wire::write(std::string_view text) {
  if (ssl_) {
    ERR_clear_error();
    size_t sent = 0;
    const int returned = SSL_write_ex(ssl_.get(), text.data(), text.size(), &sent);
    return returned == 1 ? Result{Status::done, sent} : tls_result(returned);
  }
  const ssize_t sent = ::send(socket_.native_handle(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) return {Status::done, static_cast<size_t>(sent)};
  return {sent < 0 && would_wait(errno) ? Status::want_write : Status::failed};
}

void Wire::end_writing() {
  if (ssl_ && SSL_is_init_finished(ssl_.get())) {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());  // best effort: a full socket loses it, and the peer sees the bare end
    ERR_clear_error();
  }
  boost::system::error_code ignored;
  socket_.shutdown(StreamSocket::shutdown_send, ignored);
}

void Wire::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace glint
