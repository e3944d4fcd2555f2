// An HTTP/1.1 server: a few io threads, each with its own connections; nothing is shared between them.
//
// Keep-alive, pipelining, chunked bodies, Expect: 100-continue, limits and timeouts for everything that a
// client controls. A client that leaves is noticed at once, while its request waits and while its answer
// streams.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/http.h"
#include "server/tls_context.h"

namespace glint {

struct HttpOptions {
  std::string host = "0.0.0.0";  // address or name; IPv4 or IPv6
  int port = 8000;               // 0: any free port
  std::string unix_path;         // a Unix socket instead of host and port, if not empty
  TlsOptions tls;
  int threads = 1;

  size_t header_bytes_max = size_t{64} << 10;
  size_t header_count_max = 256;
  size_t body_bytes_max = size_t{64} << 20;
  size_t bodies_bytes_max = size_t{1} << 30;   // of all requests being read or waiting
  size_t backlog_bytes_max = size_t{4} << 20;  // streamed bytes that one client has not taken
  size_t send_buffer_bytes = 0;    // of a connection in the system; 0: as it likes (up to megabytes)
  size_t connections_max = 16384;  // more wait in the listen queue

  using Milliseconds = std::chrono::milliseconds;
  Milliseconds idle_timeout{75'000};         // between two requests of a connection
  Milliseconds idle_grace{2000};             // idle for so long, it makes room when no more fit in
  Milliseconds header_timeout{20'000};       // first byte to end of header
  Milliseconds body_stall_timeout{30'000};   // without a byte of the body
  Milliseconds body_timeout{300'000};        // for the whole body
  Milliseconds write_stall_timeout{60'000};  // without the client taking a byte
  Milliseconds linger_timeout{30'000};       // reading what a refused client still sends
  Milliseconds ping_interval{15'000};        // SSE comment after so much silence of a stream
};

struct HttpCounts {
  uint64_t clients_gone = 0;   // left before their answer was complete
  uint64_t ended_backlog = 0;  // streams whose client left backlog_bytes_max untaken
  uint64_t ended_stalled = 0;  // answers of which the client took no byte for write_stall_timeout
  size_t connections = 0;
  size_t open_answers = 0;  // as open_answers()
};

class HttpServer {
 public:
  /// Binds and listens at once, so that a wrong or taken address shows before anything slow begins. Requests
  /// are served after start(). `handler` outlives the server. Throws io (address in use, no right) or
  /// bad_input (unknown host, TLS files that cannot be used).
  HttpServer(HttpOptions options, HttpHandler& handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  void start();
  /// Ends every connection (their on_gone callbacks run), joins the threads. Idempotent.
  void stop();

  /// The port that was bound; 0 for a Unix socket.
  [[nodiscard]] int port() const;
  /// "http://0.0.0.0:8000", "https://[::1]:8000", "unix:/run/glint.sock"
  [[nodiscard]] std::string url() const;
  [[nodiscard]] int threads() const;
  [[nodiscard]] size_t connections() const;
  /// Requests whose answer is not yet in the system's hands, from their arrival on.
  [[nodiscard]] size_t open_answers() const;
  [[nodiscard]] HttpCounts counts() const;

  /// Runs `task` on io thread `thread`, in the order of the calls. Any thread; dropped after stop().
  void post(int thread, std::function<void()> task);
  /// A call that has `task` run soon on io thread `thread`; several calls before it runs count as one. The
  /// call itself neither waits nor allocates; any thread, until this object ends. Before start() only.
  std::function<void()> make_waker(int thread, std::function<void()> task);
  /// Calls `task` on io thread `thread` every `period`, until stop(). Before start() only.
  void every(int thread, std::chrono::milliseconds period, std::function<void()> task);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace glint
