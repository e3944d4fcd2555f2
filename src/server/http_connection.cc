#include "server/http_connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>
#include <charconv>
#include <ctime>

#include "base/error.h"
#include "base/log.h"

namespace glint {

namespace {

constexpr size_t kHeadReadBytes = 4096;
constexpr size_t kBodyReadBytes = size_t{64} << 10;
constexpr size_t kPipelinedBytesMax = size_t{16} << 10;
constexpr size_t kKeptCapacityBytes = size_t{16} << 10;  // larger buffers are given back after use

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[40];
  const size_t bytes = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return {text, bytes};
}

void release_if_large(std::string& text) {
  text.clear();
  if (text.capacity() > kKeptCapacityBytes) text.shrink_to_fit();
}

}  // namespace

/// The part that a request's body has of the memory for all bodies.
class Connection::BodyShare {
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

class Connection::Exchange : public HttpExchange {
 public:
  Exchange(IoThread& io, std::weak_ptr<Connection> connection, uint64_t serial)
      : io_(io), connection_(std::move(connection)), serial_(serial) {}
  ~Exchange() override {
    if (done_) return;
    asio::post(io_.context, [connection = connection_, serial = serial_] {
      if (const auto target = connection.lock()) {
        target->respond(serial,
                        target->shared_->handler->refusal(500, "the request was dropped without an answer"));
      }
    });
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  [[nodiscard]] bool gone() const override { return gone_; }
  void post(std::function<void()> task) override { asio::post(io_.context, std::move(task)); }
  [[nodiscard]] int thread() const override { return io_.index; }
  void on_gone(std::function<void()> callback) override {
    if (!done_) on_gone_ = std::move(callback);
  }
  void respond(HttpResponse response) override {
    if (const auto target = connection_.lock()) target->respond(serial_, std::move(response));
  }
  void start_stream(HttpResponse head) override {
    if (const auto target = connection_.lock()) target->start_stream(serial_, head);
  }
  void send(std::string_view bytes) override {
    if (const auto target = connection_.lock()) target->send(serial_, bytes);
  }
  void finish() override {
    if (const auto target = connection_.lock()) target->finish(serial_);
  }

  /// The client has left: the callback runs soon, not now, so that it never runs inside a call of its own
  /// object.
  void lose() {
    gone_ = true;
    done_ = true;
    if (on_gone_) asio::post(io_.context, std::move(on_gone_));
    on_gone_ = nullptr;
  }
  void complete() {
    done_ = true;
    on_gone_ = nullptr;
  }

 private:
  IoThread& io_;
  const std::weak_ptr<Connection> connection_;
  const uint64_t serial_;
  std::atomic<bool> gone_{false};
  std::atomic<bool> done_{false};
  std::function<void()> on_gone_;
};

Connection::Connection(IoThread& io, std::shared_ptr<ServerShared> shared, Tcp::socket socket)
    : io_(io), shared_(std::move(shared)), options_(shared_->options), socket_(std::move(socket)) {}

Connection::~Connection() {
  --shared_->connections;
}

void Connection::set_state(State state) {
  const auto open = [](State s) { return s == State::busy || s == State::streaming || s == State::answered; };
  if (open(state) && !open(state_)) ++shared_->open_answers;
  if (!open(state) && open(state_)) --shared_->open_answers;
  state_ = state;
}

void Connection::start() {
  beast::error_code error;
  const Tcp::endpoint peer = socket_.remote_endpoint(error);
  if (error) return close();
  const std::string address = peer.address().to_string();
  peer_ = cat(peer.address().is_v6() ? "[" + address + "]" : address, ":", peer.port());
  set_deadline(options_.header_timeout);
  read_more();
}

void Connection::abandon() {
  close();
}

// ----------------------------------------------------------------------------------------------------
// reading

void Connection::read_more() {
  if (reading_ || peer_closed_ || state_ == State::closed) return;
  const bool body = state_ == State::reading && head_seen_;
  reading_ = true;
  socket_.async_read_some(
      buffer_.prepare(body ? kBodyReadBytes : kHeadReadBytes),
      [self = shared_from_this()](beast::error_code error, size_t bytes) { self->on_read(error, bytes); });
}

void Connection::on_read(beast::error_code error, size_t bytes) {
  reading_ = false;
  if (state_ == State::closed) return;
  // Our own cancel(): the next request is already in the buffer and the outstanding read stood in its way.
  if (error && error != asio::error::operation_aborted) return on_peer_closed();
  buffer_.commit(bytes);
  try {
    switch (state_) {
      case State::reading:
        parse();
        break;
      case State::lingering:
        buffer_.consume(buffer_.size());
        read_more();
        break;
      default:
        if (buffer_.size() < kPipelinedBytesMax) read_more();
        break;
    }
  } catch (const std::exception& failure) {
    log_error("connection ", peer_, " ended: ", failure.what());
    close();
  }
}

void Connection::on_peer_closed() {
  peer_closed_ = true;
  count_gone();
  if (state_ != State::answered) close();
}

void Connection::count_gone() {
  if (state_ == State::busy || state_ == State::streaming) ++shared_->clients_gone;
}

void Connection::parse() {
  while (state_ == State::reading && parse_some()) {
  }
  read_more();
}

void Connection::skip_empty_lines() {
  while (buffer_.size() >= 2) {
    const auto* text = static_cast<const char*>(buffer_.data().data());
    if (text[0] != '\r' || text[1] != '\n') return;
    buffer_.consume(2);
  }
}

void Connection::begin_parser() {
  parser_.emplace();
  parser_->body_limit(boost::none);  // ours, below: it counts what comes, not what is announced
  parser_->header_limit(static_cast<std::uint32_t>(options_.header_bytes_max));
  head_seen_ = false;
  head_bytes_ = 0;
  version_ = 11;
  method_.clear();
  target_.clear();
  head_request_ = false;
  keep_alive_ = false;
  ++serial_;
  set_deadline(options_.header_timeout);
}

/// One step of the parser. False: it needs more bytes, or the request is complete or refused.
bool Connection::parse_some() {
  if (!parser_) {
    skip_empty_lines();
    if (buffer_.size() == 0) return false;
    begin_parser();
  }
  if (buffer_.size() == 0) return false;
  beast::error_code error;
  const size_t used = parser_->put(buffer_.data(), error);
  buffer_.consume(used);
  if (!head_seen_) head_bytes_ += used;
  if (error == beast::http::error::need_more) {
    const size_t waiting = buffer_.size() + (head_seen_ ? 0 : head_bytes_);
    if (waiting >= options_.header_bytes_max) refuse(head_seen_ ? 400 : 431, "the header is too large");
    return false;
  }
  if (error == beast::http::error::header_limit) {
    refuse(431, cat("the header has more than ", options_.header_bytes_max, " bytes"));
    return false;
  }
  if (error) {
    refuse(400, "not an HTTP/1.1 request: " + error.message());
    return false;
  }
  if (!head_seen_ && parser_->is_header_done()) {
    head_seen_ = true;
    if (!check_head()) return false;
  }
  if (head_seen_ && !check_body()) return false;
  if (parser_->is_done()) {
    dispatch();
    return false;
  }
  return true;
}

/// Moves the parsed header into request_.
void Connection::fill_head() {
  const auto& message = parser_->get();
  request_ = HttpRequest{};
  request_.method = std::string(message.method_string());
  std::string target(message.target());
  method_ = request_.method;
  target_ = target;
  version_ = static_cast<int>(message.version());
  request_.version = version_;
  head_request_ = request_.method == "HEAD";
  if (const auto scheme = target.find("://"); scheme != std::string::npos && target[0] != '/') {
    const auto path = target.find('/', scheme + 3);  // absolute form, as sent to proxies
    target = path == std::string::npos ? "/" : target.substr(path);
  }
  const auto question = target.find('?');
  request_.path = target.substr(0, question);
  if (question != std::string::npos) request_.query = target.substr(question + 1);
  for (const auto& field : message) {
    request_.headers.push_back({std::string(field.name_string()), std::string(field.value())});
  }
  request_.peer = peer_;
}

bool Connection::check_head() {
  fill_head();
  keep_alive_ = parser_->keep_alive();
  if (request_.headers.size() > options_.header_count_max) {
    refuse(431, cat("more than ", options_.header_count_max, " header lines"));
    return false;
  }
  if (request_.path.empty() || (request_.path[0] != '/' && request_.path != "*")) {
    refuse(400, "the request target does not begin with /");
    return false;
  }
  if (auto refusal = shared_->handler->screen(request_)) {
    set_state(State::busy);
    if (!parser_->is_done()) refusal->close = true;  // its body stays unread
    respond(serial_, std::move(*refusal));
    return false;
  }
  if (parser_->is_done()) return true;
  if (const auto length = parser_->content_length(); length && *length > options_.body_bytes_max) {
    refuse(413, cat("the body has ", *length, " bytes; the limit is ", options_.body_bytes_max));
    return false;
  }
  body_share_ = std::make_shared<BodyShare>(shared_);
  set_deadline(options_.body_stall_timeout);
  last_deadline_ = Clock::now() + options_.body_timeout;
  return handle_expect();
}

bool Connection::handle_expect() {
  const std::string_view expect = request_.header("Expect");
  if (expect.empty() || version_ < 11) return true;
  if (!equal_ignoring_case(expect, "100-continue")) {
    refuse(417, "only Expect: 100-continue is understood");
    return false;
  }
  if (buffer_.size() == 0) {
    out_ += "HTTP/1.1 100 Continue\r\n\r\n";
    flush();
  }
  return true;
}

bool Connection::check_body() {
  if (!body_share_) return true;
  const std::string& body = parser_->get().body();
  if (body.size() > options_.body_bytes_max) {
    refuse(413, cat("the body has more than ", options_.body_bytes_max, " bytes"));
    return false;
  }
  if (!body_share_->grow_to(body.size())) {
    refuse(503, "the server holds too many request bodies at once; try again");
    return false;
  }
  set_deadline(options_.body_stall_timeout);
  return true;
}

void Connection::dispatch() {
  set_state(State::busy);
  request_.body = std::move(parser_->get().body());
  request_.body_share = std::move(body_share_);
  body_share_ = nullptr;
  if (buffer_.size() == 0 && buffer_.capacity() > kKeptCapacityBytes) buffer_.shrink_to_fit();
  const auto exchange = std::make_shared<Exchange>(io_, weak_from_this(), serial_);
  exchange_ = exchange;
  shared_->handler->handle(std::move(request_), exchange);
  request_ = HttpRequest{};
}

/// Answers a request that cannot be read on: the connection ends behind the answer.
void Connection::refuse(int status, const std::string& reason) {
  HttpResponse response = shared_->handler->refusal(status, reason);
  response.close = true;
  set_state(State::busy);
  respond(serial_, std::move(response));
}

// ----------------------------------------------------------------------------------------------------
// answering

void Connection::record(int status) {
  shared_->handler->answered({peer_, method_.empty() ? "-" : method_, target_, version_, status});
}

void Connection::append_head(const HttpResponse& response, std::optional<size_t> body_bytes) {
  if (response.close) keep_alive_ = false;
  out_ += cat("HTTP/1.1 ", response.status, " ", status_phrase(response.status), "\r\nDate: ", http_date(),
              "\r\n");
  if (!response.content_type.empty()) out_ += "Content-Type: " + response.content_type + "\r\n";
  if (body_bytes) {
    out_ += cat("Content-Length: ", *body_bytes, "\r\n");
  } else if (version_ >= 11) {
    chunked_ = true;
    out_ += "Transfer-Encoding: chunked\r\n";
  } else {
    chunked_ = false;
    keep_alive_ = false;
  }
  for (const HttpHeader& header : response.headers) out_ += header.name + ": " + header.value + "\r\n";
  if (!keep_alive_) {
    out_ += "Connection: close\r\n";
  } else if (version_ < 11) {
    out_ += "Connection: keep-alive\r\n";
  }
  out_ += "\r\n";
}

void Connection::append_framed(std::string_view bytes) {
  if (!chunked_) {
    out_ += bytes;
    return;
  }
  char size[24];
  const auto end = std::to_chars(size, size + sizeof size, bytes.size(), 16).ptr;
  out_.append(size, end);
  out_ += "\r\n";
  out_ += bytes;
  out_ += "\r\n";
}

void Connection::respond(uint64_t serial, HttpResponse response) {
  if (!current(serial, State::busy)) return;
  append_head(response, response.body.size());
  if (!head_request_) out_ += response.body;
  record(response.status);
  complete_answer();
}

void Connection::start_stream(uint64_t serial, const HttpResponse& head) {
  if (!current(serial, State::busy)) return;
  set_state(State::streaming);
  append_head(head, std::nullopt);
  record(head.status);
  last_sent_ = Clock::now();
  flush();
}

void Connection::send(uint64_t serial, std::string_view bytes) {
  if (!current(serial, State::streaming) || bytes.empty()) return;
  append_framed(bytes);
  last_sent_ = Clock::now();
  if (out_.size() + writing_.size() - written_ > options_.backlog_bytes_max) {
    log_warning("client ", peer_, " takes its stream too slowly: dropped with ", out_.size(),
                " bytes waiting");
    ++shared_->ended_backlog;
    return close();
  }
  flush();
}

void Connection::finish(uint64_t serial) {
  if (!current(serial, State::streaming)) return;
  if (chunked_) out_ += "0\r\n\r\n";
  complete_answer();
}

void Connection::complete_answer() {
  if (const auto exchange = exchange_.lock()) exchange->complete();
  exchange_.reset();
  body_share_ = nullptr;
  set_state(State::answered);
  flush();
}

void Connection::flush() {
  if (write_pending_ || state_ == State::closed || out_.empty()) return;
  writing_.swap(out_);
  written_ = 0;
  write_some();
}

void Connection::write_some() {
  write_pending_ = true;
  write_deadline_ = Clock::now() + options_.write_stall_timeout;
  socket_.async_write_some(
      asio::buffer(writing_.data() + written_, writing_.size() - written_),
      [self = shared_from_this()](beast::error_code error, size_t bytes) { self->on_written(error, bytes); });
}

void Connection::on_written(beast::error_code error, size_t bytes) {
  write_pending_ = false;
  if (state_ == State::closed) return;
  if (error) {
    count_gone();
    return close();
  }
  written_ += bytes;
  if (written_ < writing_.size()) return write_some();
  release_if_large(writing_);
  written_ = 0;
  if (!out_.empty()) return flush();
  if (state_ == State::answered) on_answer_written();
}

/// The client has the whole answer: on to its next request, or to the end.
void Connection::on_answer_written() {
  if (out_.capacity() > kKeptCapacityBytes) out_.shrink_to_fit();
  if (!keep_alive_ || peer_closed_) return linger();
  parser_.reset();
  head_seen_ = false;
  set_state(State::reading);
  set_deadline(options_.idle_timeout);
  last_deadline_ = Clock::time_point::max();
  if (!reading_) return parse();
  beast::error_code ignored;
  if (buffer_.size() > 0) socket_.cancel(ignored);  // a pipelined request: on_read goes on with it
}

void Connection::linger() {
  if (peer_closed_) return close();
  set_state(State::lingering);
  parser_.reset();
  beast::error_code ignored;
  socket_.shutdown(Tcp::socket::shutdown_send, ignored);
  set_deadline(options_.linger_timeout);
  if (!reading_) {
    buffer_.consume(buffer_.size());
    read_more();
  }
}

void Connection::close() {
  if (state_ == State::closed) return;
  const bool unanswered = state_ == State::busy || state_ == State::streaming;
  set_state(State::closed);
  beast::error_code ignored;
  socket_.close(ignored);
  if (const auto exchange = exchange_.lock(); exchange && unanswered) exchange->lose();
  body_share_ = nullptr;
  // The map holds a reference, and the caller may be walking it.
  asio::post(io_.context, [self = shared_from_this()] { self->io_.connections.erase(self.get()); });
}

void Connection::tick_ping(Clock::time_point now) {
  if (now - last_sent_ < options_.ping_interval || write_pending_) return;
  append_framed(": ping\n\n");
  last_sent_ = now;
  flush();
}

void Connection::tick(Clock::time_point now) {
  if (write_pending_ && now > write_deadline_) {
    log_warning("client ", peer_, " has taken nothing of its answer for too long: dropped");
    ++shared_->ended_stalled;
    return close();
  }
  if (state_ == State::streaming) tick_ping(now);
  if (state_ == State::lingering && now > deadline_) return close();
  if (state_ != State::reading || (now <= deadline_ && now <= last_deadline_)) return;
  if (!parser_) return close();
  refuse(408, head_seen_ ? "the body did not arrive in time" : "the header did not arrive in time");
}

}  // namespace glint
