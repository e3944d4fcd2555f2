// An io thread of the HTTP server and what its connections share. Internal to the HTTP server.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/error.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "server/http_server.h"

namespace glint {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Clock = std::chrono::steady_clock;

class Connection;

/// A repeated task of an io thread.
struct Ticker {
  asio::steady_timer timer;
  std::chrono::milliseconds period;
  std::function<void()> task;
};

/// A task that other threads can ask for without allocating: an event counter that the io thread watches.
class Waker {
 public:
  Waker(asio::io_context& context, std::function<void()> task);
  /// Any thread.
  void wake();
  /// On the io thread: begins to watch; close() ends it.
  void watch();
  void close();

 private:
  asio::posix::stream_descriptor counter_;
  std::function<void()> task_;
};

/// One io thread and the connections that live on it.
struct IoThread {
  explicit IoThread(int thread_index) : index(thread_index) {}

  const int index;
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;
  std::vector<std::unique_ptr<Ticker>> tickers;
  std::vector<std::unique_ptr<Waker>> wakers;
  bool stopping = false;  // on the thread itself
  std::thread thread;

  /// Before start(): has `task` run every `period` once the thread runs.
  void add_ticker(std::chrono::milliseconds period, std::function<void()> task);
  /// Begins tickers and wakers, and the thread.
  void start();
  /// On the thread: ends them, so that the thread ends when its handlers are through.
  void end_tasks();
};

/// What connections share across threads.
struct ServerShared {
  HttpOptions options;
  HttpHandler* handler = nullptr;
  std::atomic<size_t> body_bytes{0};
  std::atomic<size_t> connections{0};
  std::atomic<size_t> open_answers{0};
  std::atomic<uint64_t> clients_gone{0}, ended_backlog{0}, ended_stalled{0};
};

/// The part that a request's body has of the memory for all bodies.
class BodyShare {
 public:
  explicit BodyShare(std::shared_ptr<ServerShared> shared) : shared_(std::move(shared)) {}
  ~BodyShare() { shared_->body_bytes -= bytes_; }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;
  /// False if all bodies together would pass the limit.
  bool grow_to(size_t bytes) {
    if (bytes <= bytes_) return true;
    const size_t more = bytes - bytes_;
    bytes_ = bytes;
    return shared_->body_bytes.fetch_add(more) + more <= shared_->options.bodies_bytes_max;
  }

 private:
  std::shared_ptr<ServerShared> shared_;
  size_t bytes_ = 0;
};

}  // namespace glint
