// One client connection. Internal to the HTTP server: only http_*.cc include this.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "server/http_server.h"

namespace glint {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Tcp = asio::ip::tcp;
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

/// Beast's string_body reserves what the client announces; this one grows with what has come.
struct GrowingBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool kRequest, class Fields>
    reader(beast::http::header<kRequest, Fields>& /*header*/, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>& /*length*/, beast::error_code& error) { error = {}; }
    template <class Buffers>
    size_t put(const Buffers& buffers, beast::error_code& error) {
      error = {};
      size_t bytes = 0;
      for (const auto piece : beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(piece.data()), piece.size());
        bytes += piece.size();
      }
      return bytes;
    }
    void finish(beast::error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(IoThread& io, std::shared_ptr<ServerShared> shared, Tcp::socket socket);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  /// Called about every second: timeouts and pings.
  void tick(Clock::time_point now);
  /// Ends at once; the exchange's on_gone runs.
  void abandon();

  // The exchange's side. `serial` names the request; calls of an earlier request are ignored.
  void respond(uint64_t serial, HttpResponse response);
  void start_stream(uint64_t serial, const HttpResponse& head);
  void send(uint64_t serial, std::string_view bytes);
  void finish(uint64_t serial);

 private:
  class Exchange;
  class BodyShare;
  enum class State {
    reading,    // waiting for a request, or in the middle of one
    busy,       // the handler has the request, no answer yet
    streaming,  // the head of a streamed answer has been sent
    answered,   // the answer is complete, some of it not yet taken by the client
    lingering,  // everything is sent; reading until the client closes, so that no reset destroys the answer
    closed,
  };
  using Parser = beast::http::request_parser<GrowingBody>;

  void set_state(State state);
  void read_more();
  void on_read(beast::error_code error, size_t bytes);
  void on_peer_closed();
  void tick_ping(Clock::time_point now);
  void skip_empty_lines();
  void begin_parser();
  void parse();
  bool parse_some();
  bool check_head();
  bool check_body();
  void fill_head();
  bool handle_expect();
  void dispatch();
  void refuse(int status, const std::string& reason);

  void append_head(const HttpResponse& response, std::optional<size_t> body_bytes);
  void append_framed(std::string_view bytes);
  void record(int status);
  bool current(uint64_t serial, State wanted) const { return serial == serial_ && state_ == wanted; }
  void flush();
  void write_some();
  void on_written(beast::error_code error, size_t bytes);
  void count_gone();
  void complete_answer();
  void on_answer_written();
  void linger();
  void close();
  void set_deadline(std::chrono::milliseconds from_now) { deadline_ = Clock::now() + from_now; }

  IoThread& io_;
  const std::shared_ptr<ServerShared> shared_;
  const HttpOptions& options_;
  Tcp::socket socket_;
  std::string peer_;

  State state_ = State::reading;
  uint64_t serial_ = 0;  // of the current request
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point last_deadline_ = Clock::time_point::max();  // for the whole body, for the whole linger
  Clock::time_point write_deadline_;
  Clock::time_point last_sent_;

  beast::flat_buffer buffer_;
  bool reading_ = false;  // a read is outstanding: the buffer's content must not be consumed to its end
  std::optional<Parser> parser_;
  bool head_seen_ = false;
  size_t head_bytes_ = 0;
  HttpRequest request_;
  std::shared_ptr<BodyShare> body_share_;
  std::weak_ptr<Exchange> exchange_;

  bool keep_alive_ = false;
  bool peer_closed_ = false;
  bool head_request_ = false;  // HEAD: no body in the answer
  bool chunked_ = false;
  int version_ = 11;
  std::string method_, target_;  // for the access record

  std::string out_;      // to be written after `writing_out_`
  std::string writing_;  // being written
  size_t written_ = 0;
  bool write_pending_ = false;
};

}  // namespace glint
