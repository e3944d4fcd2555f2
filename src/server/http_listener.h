// Where clients come in: a TCP address or a Unix socket. Internal to the HTTP server.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "server/http_wire.h"
#include "server/io_thread.h"

namespace glint {

/// A socket that has come in.
struct Accepted {
  int handle = -1;
  int family = 0;    // AF_INET, AF_INET6 or AF_UNIX
  std::string peer;  // "127.0.0.1:51234", "[::1]:51234", "unix"
};

class HttpListener {
 public:
  /// Binds and listens. Throws as HttpServer does.
  HttpListener(asio::io_context& context, const HttpOptions& options);
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  struct Calls {
    std::function<void(const Accepted&)> adopt;  // takes a socket that has come in, and closes it
    std::function<bool()> full;                  // nobody is let in
    std::function<void()> make_room;             // somebody waits outside
  };
  /// On the context's thread. Full, or out of file descriptors, it looks again a little later, without
  /// spinning.
  void start(Calls calls);
  /// On that thread: ends it.
  void close();

  [[nodiscard]] int port() const { return port_; }  // 0 for a Unix socket
  /// As HttpServer::url().
  [[nodiscard]] std::string url(bool secure) const;

 private:
  void bind_unix(const std::string& path);
  void bind_tcp(asio::io_context& context, const HttpOptions& options);
  void wait();
  void accept_some();
  void pause();
  void report(int error);
  void remove_file();

  asio::posix::stream_descriptor socket_;
  asio::steady_timer timer_;
  Calls calls_;
  int port_ = 0;
  std::string address_;    // as a URL has it
  std::string unix_path_;  // removed at the end
  Clock::time_point reported_;
};

}  // namespace glint
