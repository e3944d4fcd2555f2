// One client connection. Internal to the HTTP server: only http_*.cc include this. Reading and its checks are
// in http_reading.cc, answering in http_answering.cc, the life of it in http_connection.cc.
#pragma once

#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http_wire.h"
#include "server/io_thread.h"

namespace glint {

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
  /// `peer` as in HttpRequest.
  Connection(IoThread& io, std::shared_ptr<ServerShared> shared, Wire wire, std::string peer);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  /// Called about every second: timeouts and pings.
  void tick(Clock::time_point now);
  /// No request since then; nothing if it is in the middle of one.
  [[nodiscard]] std::optional<Clock::time_point> idle_since() const;
  /// Ends at once; the exchange's on_gone runs.
  void abandon() { close(); }

  // The exchange's side. `serial` names the request; calls of an earlier request are ignored.
  void respond(uint64_t serial, HttpResponse response);
  void start_stream(uint64_t serial, const HttpResponse& head);
  void send(uint64_t serial, std::string_view bytes);
  void finish(uint64_t serial);

 private:
  class Exchange;
  enum class State {
    handshaking,  // TLS
    reading,      // waiting for a request, or in the middle of one
    busy,         // the handler has the request, no answer yet
    streaming,    // the head of a streamed answer has been sent
    answered,     // the answer is complete, some of it not yet taken by the client
    lingering,    // everything is sent; reading until the client closes, so that no reset destroys the answer
    closed,
  };
  using Parser = beast::http::request_parser<GrowingBody>;

  // Life
  void set_state(State state);
  void wait_readable();
  void wait_writable();
  /// Runs when the socket can be read or written again: goes on with whatever waited for it.
  void resume();
  void go_on();
  void shake_hands();
  void on_peer_closed();
  void count_gone();
  void linger();
  void close();
  void tick_ping(Clock::time_point now);
  void set_deadline(std::chrono::milliseconds from_now) { deadline_ = Clock::now() + from_now; }

  // Reading
  void read_on();
  [[nodiscard]] bool wants_bytes() const;
  void parse();
  void skip_empty_lines();
  void begin_parser();
  bool parse_some();
  bool check_head();
  bool check_body();
  void fill_head();
  bool handle_expect();
  void dispatch();
  void refuse(int status, const std::string& reason);

  // Answering
  void append_head(const HttpResponse& response, std::optional<size_t> body_bytes);
  void append_framed(std::string_view bytes);
  void record(int status);
  [[nodiscard]] bool current(uint64_t serial, State wanted) const {
    return serial == serial_ && state_ == wanted;
  }
  [[nodiscard]] size_t unsent() const { return out_.size() - sent_; }
  void flush();
  void complete_answer();
  void on_answer_written();

  IoThread& io_;
  const std::shared_ptr<ServerShared> shared_;
  const HttpOptions& options_;
  Wire wire_;
  std::string peer_;

  State state_ = State::handshaking;
  uint64_t serial_ = 0;  // of the current request
  Clock::time_point idle_since_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point last_deadline_ = Clock::time_point::max();  // for the whole body
  Clock::time_point write_deadline_;
  Clock::time_point last_sent_;

  beast::flat_buffer buffer_;
  bool waiting_read_ = false;
  bool waiting_write_ = false;
  bool parsing_ = false;  // parse() is running, and takes the next request itself
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
  std::string common_headers_;   // header lines of every answer to this request

  std::string out_;  // to be written from `sent_` on
  size_t sent_ = 0;
  bool write_blocked_ = false;  // the client does not take what is there
};

}  // namespace glint
