// The bytes of one connection: a stream socket (TCP or Unix), bare or under TLS. Nothing here waits.
// Internal to the HTTP server.
#pragma once

#include <openssl/types.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <memory>
#include <string_view>

#include "server/tls_context.h"

namespace glint {

using StreamSocket = boost::asio::generic::stream_protocol::socket;

class Wire {
 public:
  enum class Status {
    done,
    want_read,   // again when the socket can be read
    want_write,  // again when it can be written
    ended,       // the peer sends no more
    failed,
  };
  struct Result {
    Status status = Status::done;
    size_t bytes = 0;  // > 0 if a read or a write is done
  };

  /// `tls`: none for a bare socket.
  Wire(StreamSocket socket, std::shared_ptr<const TlsContext> tls);

  [[nodiscard]] StreamSocket& socket() { return socket_; }
  [[nodiscard]] bool secure() const { return ssl_ != nullptr; }
  /// Done at once without TLS.
  Result handshake();
  Result read(void* bytes, size_t bytes_max);
  /// Part of it may go. What did not go must come again, at the front of the next call's text.
  Result write(std::string_view text);
  /// Says that no more will be written.
  void end_writing();
  void close();

 private:
  struct Free {
    void operator()(SSL* ssl) const;
  };
  Result tls_result(int returned);

  StreamSocket socket_;
  std::shared_ptr<const TlsContext> tls_;
  std::unique_ptr<SSL, Free> ssl_;
};

}  // namespace glint
