#include "server/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "server/http_connection.h"
#include "server/http_listener.h"

namespace glint {

namespace {

// A host that vanished without a word is noticed after about a minute.
constexpr int kKeepIdleSeconds = 30;
constexpr int kKeepIntervalSeconds = 10;
constexpr int kKeepCount = 3;
constexpr unsigned kUserTimeoutMs = 60'000;
constexpr std::chrono::milliseconds kRefreshPeriod{1000};
constexpr size_t kShedShare = 8;  // of the idle connections, at a time

void set_option(int socket, int level, int name, unsigned value) {
  setsockopt(socket, level, name, &value,
             sizeof value);  // best effort: a missing option costs only speed of notice
}

void tune(const Accepted& accepted, const HttpOptions& options) {
  const int handle = accepted.handle;
  if (options.send_buffer_bytes > 0) {
    set_option(handle, SOL_SOCKET, SO_SNDBUF, static_cast<unsigned>(options.send_buffer_bytes));
  }
  if (accepted.family == AF_UNIX) return;
  set_option(handle, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(handle, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(handle, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  set_option(handle, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
  set_option(handle, IPPROTO_TCP, TCP_KEEPCNT, kKeepCount);
  set_option(handle, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

std::chrono::milliseconds tick_period(const HttpOptions& options) {
  const auto shortest = std::min({options.idle_timeout, options.header_timeout, options.body_stall_timeout,
                                  options.body_timeout, options.write_stall_timeout, options.linger_timeout,
                                  options.ping_interval});
  return std::clamp<std::chrono::milliseconds>(shortest / 4, std::chrono::milliseconds(10),
                                               std::chrono::milliseconds(1000));
}

/// A socket on its way to its io thread; closed if it does not get there.
class Handle {
 public:
  explicit Handle(int handle) : handle_(handle) {}
  ~Handle() {
    if (handle_ >= 0) close(handle_);
  }
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}
  Handle& operator=(Handle&&) = delete;
  int release() { return std::exchange(handle_, -1); }

 private:
  int handle_;
};

}  // namespace

struct HttpServer::Impl {
  std::shared_ptr<ServerShared> shared = std::make_shared<ServerShared>();
  std::vector<std::unique_ptr<IoThread>> threads;
  std::unique_ptr<TlsStore> tls;  // io thread 0's; none without TLS
  std::unique_ptr<HttpListener> listener;
  std::string url;
  size_t next_thread = 0;
  bool started = false;
  std::atomic<bool> stopped{false};

  [[nodiscard]] bool full() const { return shared->connections >= shared->options.connections_max; }
  void adopt(const Accepted& accepted);
  void make_room();
  void close_all(IoThread& io);
};

void HttpServer::Impl::adopt(const Accepted& accepted) {
  ++shared->connections;
  tune(accepted, shared->options);
  IoThread& io = *threads[next_thread];
  next_thread = (next_thread + 1) % threads.size();
  asio::post(io.context, [this, &io, handle = Handle(accepted.handle), family = accepted.family,
                          peer = accepted.peer, context = tls ? tls->current() : nullptr]() mutable {
    if (stopped) {
      --shared->connections;
      return;
    }
    const asio::generic::stream_protocol protocol(family, family == AF_UNIX ? 0 : IPPROTO_TCP);
    StreamSocket socket(io.context);
    socket.assign(protocol, handle.release());
    const auto connection = std::make_shared<Connection>(
        io, shared, Wire(std::move(socket), std::move(context)), std::move(peer));
    io.connections.emplace(connection.get(), connection);
    connection->start();
  });
}

/// Ends the connections that have been idle for longest: whoever holds many of them must not keep others out.
void HttpServer::Impl::make_room() {
  for (const auto& thread : threads) {
    asio::post(thread->context, [io = thread.get(), grace = shared->options.idle_grace] {
      std::vector<std::pair<Clock::time_point, Connection*>> idle;
      const auto latest = Clock::now() - grace;
      for (const auto& [key, connection] : io->connections) {
        const auto since = connection->idle_since();
        if (since && *since <= latest) idle.emplace_back(*since, key);
      }
      const size_t count = (idle.size() + kShedShare - 1) / kShedShare;
      std::partial_sort(idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(count), idle.end());
      for (size_t i = 0; i < count; ++i) idle[i].second->abandon();
    });
  }
}

void HttpServer::Impl::close_all(IoThread& io) {
  if (io.index == 0) listener->close();
  io.end_tasks();
  for (const auto& [key, connection] : io.connections) connection->abandon();
}

HttpServer::HttpServer(HttpOptions options, HttpHandler& handler) : impl_(std::make_unique<Impl>()) {
  impl_->shared->options = std::move(options);
  impl_->shared->handler = &handler;
  const int count = std::max(1, impl_->shared->options.threads);
  for (int i = 0; i < count; ++i) impl_->threads.push_back(std::make_unique<IoThread>(i));
  if (impl_->shared->options.tls.on()) impl_->tls = std::make_unique<TlsStore>(impl_->shared->options.tls);
  impl_->listener = std::make_unique<HttpListener>(impl_->threads[0]->context, impl_->shared->options);
  impl_->url = impl_->listener->url(impl_->tls != nullptr);
  if (impl_->tls && impl_->shared->options.tls.refresh) {
    every(0, kRefreshPeriod, [store = impl_->tls.get()] { store->refresh(); });
  }
  const auto period = tick_period(impl_->shared->options);
  for (const auto& io : impl_->threads) {
    every(io->index, period, [thread = io.get()] {
      const auto now = Clock::now();
      for (const auto& [key, connection] : thread->connections) connection->tick(now);
    });
  }
}

HttpServer::~HttpServer() {
  stop();
}

void HttpServer::start() {
  if (impl_->started) return;
  impl_->started = true;
  for (const auto& io : impl_->threads) io->start();
  asio::post(impl_->threads[0]->context, [impl = impl_.get()] {
    impl->listener->start({.adopt = [impl](const Accepted& accepted) { impl->adopt(accepted); },
                           .full = [impl] { return impl->full(); },
                           .make_room = [impl] { impl->make_room(); }});
  });
}

void HttpServer::stop() {
  if (impl_->stopped.exchange(true)) return;
  for (const auto& io : impl_->threads) {
    asio::post(io->context, [impl = impl_.get(), thread = io.get()] { impl->close_all(*thread); });
  }
  for (const auto& io : impl_->threads) {
    if (io->thread.joinable()) io->thread.join();
    io->connections.clear();
  }
}

int HttpServer::port() const {
  return impl_->listener->port();
}
int HttpServer::threads() const {
  return static_cast<int>(impl_->threads.size());
}
size_t HttpServer::connections() const {
  return impl_->shared->connections;
}
size_t HttpServer::open_answers() const {
  return impl_->shared->open_answers;
}

HttpCounts HttpServer::counts() const {
  const ServerShared& shared = *impl_->shared;
  return {.clients_gone = shared.clients_gone,
          .ended_backlog = shared.ended_backlog,
          .ended_stalled = shared.ended_stalled,
          .connections = shared.connections,
          .open_answers = shared.open_answers};
}

std::string HttpServer::url() const {
  return impl_->url;
}

void HttpServer::post(int thread, std::function<void()> task) {
  if (impl_->stopped) return;
  asio::post(impl_->threads.at(static_cast<size_t>(thread))->context, std::move(task));
}

std::function<void()> HttpServer::make_waker(int thread, std::function<void()> task) {
  IoThread& io = *impl_->threads.at(static_cast<size_t>(thread));
  io.wakers.push_back(std::make_unique<Waker>(io.context, std::move(task)));
  return [waker = io.wakers.back().get()] { waker->wake(); };
}

void HttpServer::every(int thread, std::chrono::milliseconds period, std::function<void()> task) {
  impl_->threads.at(static_cast<size_t>(thread))->add_ticker(period, std::move(task));
}

}  // namespace glint
