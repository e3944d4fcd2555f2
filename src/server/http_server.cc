#include "server/http_server.h"

#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "server/http_connection.h"

namespace glint {

namespace {

constexpr int kListenBacklog = 4096;
constexpr std::chrono::milliseconds kAcceptPause{100};
// A host that vanished without a word is noticed after about a minute.
constexpr int kKeepIdleSeconds = 30;
constexpr int kKeepIntervalSeconds = 10;
constexpr int kKeepCount = 3;
constexpr unsigned kUserTimeoutMs = 60'000;

void set_option(int socket, int level, int name, unsigned value) {
  setsockopt(socket, level, name, &value,
             sizeof value);  // best effort: a missing option costs only speed of notice
}

void tune(Tcp::socket& socket, const HttpOptions& options) {
  const int handle = socket.native_handle();
  set_option(handle, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(handle, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(handle, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  set_option(handle, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
  set_option(handle, IPPROTO_TCP, TCP_KEEPCNT, kKeepCount);
  set_option(handle, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  if (options.send_buffer_bytes > 0) {
    set_option(handle, SOL_SOCKET, SO_SNDBUF, static_cast<unsigned>(options.send_buffer_bytes));
  }
}

std::chrono::milliseconds tick_period(const HttpOptions& options) {
  const auto shortest = std::min({options.idle_timeout, options.header_timeout, options.body_stall_timeout,
                                  options.body_timeout, options.write_stall_timeout, options.linger_timeout,
                                  options.ping_interval});
  return std::clamp<std::chrono::milliseconds>(shortest / 4, std::chrono::milliseconds(10),
                                               std::chrono::milliseconds(1000));
}

void run_thread(IoThread& io) {
  for (;;) {
    try {
      io.context.run();
      return;
    } catch (const std::exception& error) {
      log_error("io thread ", io.index, ": ", error.what());
    }
  }
}

void arm(const IoThread& io, Ticker& ticker) {
  ticker.timer.expires_after(ticker.period);
  ticker.timer.async_wait([&io, &ticker](beast::error_code error) {
    if (error || io.stopping) return;
    ticker.task();
    arm(io, ticker);
  });
}

}  // namespace

Waker::Waker(asio::io_context& context, std::function<void()> task)
    : counter_(context), task_(std::move(task)) {
  const int handle = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (handle < 0) fail(ErrorKind::io, "eventfd: ", std::generic_category().message(errno));
  counter_.assign(handle);
}

void Waker::wake() {
  const uint64_t one = 1;
  // It fails only when the counter is full, and then the task is on its way.
  [[maybe_unused]] const auto written = write(counter_.native_handle(), &one, sizeof one);
}

void Waker::watch() {
  counter_.async_wait(asio::posix::stream_descriptor::wait_read, [this](beast::error_code error) {
    if (error) return;
    uint64_t count = 0;
    [[maybe_unused]] const auto taken = read(counter_.native_handle(), &count, sizeof count);
    watch();  // first: a task that throws must not end it
    task_();
  });
}

void Waker::close() {
  beast::error_code ignored;
  counter_.cancel(ignored);  // the handle stays open: someone may still call wake()
}

struct HttpServer::Impl {
  std::shared_ptr<ServerShared> shared = std::make_shared<ServerShared>();
  std::vector<std::unique_ptr<IoThread>> threads;
  std::unique_ptr<Tcp::acceptor> acceptor;
  std::unique_ptr<asio::steady_timer> accept_timer;
  Tcp::endpoint endpoint;
  size_t next_thread = 0;
  bool started = false;
  std::atomic<bool> stopped{false};

  void bind();
  Tcp::endpoint resolve();
  void accept();
  void adopt(IoThread& io, Tcp::socket socket);
  void pause_accepting();
  void close_all(IoThread& io);
};

Tcp::endpoint HttpServer::Impl::resolve() {
  const HttpOptions& options = shared->options;
  beast::error_code error;
  const auto port = static_cast<unsigned short>(options.port);
  const auto address = asio::ip::make_address(options.host, error);
  if (!error) return {address, port};
  Tcp::resolver resolver(threads[0]->context);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), error);
  if (error || found.empty()) {
    fail(ErrorKind::bad_input, "--host ", options.host, ": no such address or name (", error.message(), ")");
  }
  return found.begin()->endpoint();
}

void HttpServer::Impl::bind() {
  const Tcp::endpoint wanted = resolve();
  acceptor = std::make_unique<Tcp::acceptor>(threads[0]->context);
  accept_timer = std::make_unique<asio::steady_timer>(threads[0]->context);
  beast::error_code error;
  acceptor->open(wanted.protocol(), error);
  if (!error) acceptor->set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor->bind(wanted, error);
  if (!error) acceptor->listen(kListenBacklog, error);
  if (error) {
    std::string reason = error.message();
    reason[0] =
        static_cast<char>(std::tolower(static_cast<unsigned char>(reason[0])));  // as users grep for it
    fail(ErrorKind::io, "[Errno ", error.value(), "] error while attempting to bind on address ('",
         wanted.address().to_string(), "', ", wanted.port(), "): ", reason,
         error == asio::error::address_in_use ? "; choose another --port" : "");
  }
  endpoint = acceptor->local_endpoint();
}

void HttpServer::Impl::accept() {
  IoThread& io = *threads[next_thread];
  next_thread = (next_thread + 1) % threads.size();
  acceptor->async_accept(io.context, [this, &io](beast::error_code error, Tcp::socket socket) {
    if (stopped) return;
    if (error) {
      if (error == asio::error::operation_aborted) return;
      log_warning("cannot accept a connection: ", error.message());  // out of file descriptors, as a rule
      return pause_accepting();
    }
    adopt(io, std::move(socket));
    if (shared->connections >= shared->options.connections_max) return pause_accepting();
    accept();
  });
}

/// Looks again a little later: a failing accept() would otherwise spin.
void HttpServer::Impl::pause_accepting() {
  accept_timer->expires_after(kAcceptPause);
  accept_timer->async_wait([this](beast::error_code error) {
    if (error || stopped) return;
    if (shared->connections >= shared->options.connections_max) return pause_accepting();
    accept();
  });
}

void HttpServer::Impl::adopt(IoThread& io, Tcp::socket socket) {
  ++shared->connections;
  tune(socket, shared->options);
  auto connection = std::make_shared<Connection>(io, shared, std::move(socket));
  asio::post(io.context, [this, &io, connection] {
    if (stopped) return connection->abandon();
    io.connections.emplace(connection.get(), connection);
    connection->start();
  });
}

void HttpServer::Impl::close_all(IoThread& io) {
  if (io.index == 0) {
    beast::error_code ignored;
    acceptor->close(ignored);
    accept_timer->cancel();
  }
  io.stopping = true;
  for (const auto& ticker : io.tickers) ticker->timer.cancel();
  for (const auto& waker : io.wakers) waker->close();
  for (const auto& [key, connection] : io.connections) connection->abandon();
  io.work.reset();
}

HttpServer::HttpServer(HttpOptions options, HttpHandler& handler) : impl_(std::make_unique<Impl>()) {
  impl_->shared->options = std::move(options);
  impl_->shared->handler = &handler;
  const int count = std::max(1, impl_->shared->options.threads);
  for (int i = 0; i < count; ++i) impl_->threads.push_back(std::make_unique<IoThread>(i));
  impl_->bind();
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
  for (const auto& io : impl_->threads) {
    for (const auto& ticker : io->tickers) arm(*io, *ticker);
    for (const auto& waker : io->wakers) waker->watch();
    io->thread = std::thread([thread = io.get()] { run_thread(*thread); });
  }
  asio::post(impl_->threads[0]->context, [impl = impl_.get()] { impl->accept(); });
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
  return impl_->endpoint.port();
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
  const auto address = impl_->endpoint.address();
  return cat("http://", address.is_v6() ? "[" + address.to_string() + "]" : address.to_string(), ":", port());
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
  IoThread& io = *impl_->threads.at(static_cast<size_t>(thread));
  io.tickers.push_back(
      std::make_unique<Ticker>(Ticker{asio::steady_timer(io.context), period, std::move(task)}));
}

}  // namespace glint
