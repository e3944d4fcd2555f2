// Connection: from bytes to requests, and what is refused on the way.
#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>

#include "base/error.h"
#include "server/http_connection.h"
#include "server/http_exchange.h"

namespace glint {

namespace {

constexpr size_t kHeadReadBytes = 4096;
constexpr size_t kBodyReadBytes = size_t{64} << 10;
constexpr size_t kPipelinedBytesMax = size_t{16} << 10;
constexpr int kReadsInARow = 16;  // then the other connections of the thread have their turn

/// Beast takes a body that is coded in another way for none, and what follows for the next request: that is
/// how requests are smuggled past a proxy. Nothing, or why the request's framing is not clear.
std::string_view framing_fault(const HttpRequest& head) {
  int codings = 0;
  int hosts = 0;
  for (const HttpHeader& header : head.headers) {
    if (equal_ignoring_case(header.name, "Host")) ++hosts;
    if (!equal_ignoring_case(header.name, "Transfer-Encoding")) continue;
    ++codings;
    if (!equal_ignoring_case(header.value, "chunked"))
      return "the only Transfer-Encoding understood is chunked";
  }
  if (codings > 1) return "Transfer-Encoding stands there twice";
  if (codings > 0 && head.version < 11) return "HTTP/1.0 has no Transfer-Encoding";
  if (hosts > 1) return "Host stands there twice";
  return {};
}

}  // namespace

bool Connection::wants_bytes() const {
  if (peer_closed_ || state_ == State::closed) return false;
  return state_ == State::reading || state_ == State::lingering || buffer_.size() < kPipelinedBytesMax;
}

void Connection::read_on() {
  for (int reads = 0; reads < kReadsInARow; ++reads) {
    if (waiting_read_ || !wants_bytes()) return;
    const bool bulk = state_ == State::lingering || (state_ == State::reading && head_seen_);
    const size_t bytes_max = bulk ? kBodyReadBytes : kHeadReadBytes;
    const Wire::Result got = wire_.read(buffer_.prepare(bytes_max).data(), bytes_max);
    switch (got.status) {
      case Wire::Status::want_read:
        return wait_readable();
      case Wire::Status::want_write:
        return wait_writable();
      case Wire::Status::ended:
      case Wire::Status::failed:
        return on_peer_closed();
      case Wire::Status::done:
        break;
    }
    buffer_.commit(got.bytes);
    if (state_ == State::reading) parse();
    if (state_ == State::lingering) buffer_.consume(buffer_.size());
    // Less than there was room for: the socket is empty. TLS may have more of its own.
    if (got.bytes < bytes_max && !wire_.secure() && wants_bytes()) return wait_readable();
  }
  asio::post(io_.context, [self = shared_from_this()] { self->resume(); });
}

void Connection::parse() {
  parsing_ = true;
  while (state_ == State::reading && parse_some()) {
  }
  parsing_ = false;
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
  common_headers_.clear();
  head_request_ = false;
  keep_alive_ = false;
  ++serial_;
  set_deadline(options_.header_timeout);
}

/// One step of the parser. False: it needs more bytes.
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
    if (!check_head()) return state_ == State::reading;  // answered already: on to the next one
  }
  if (head_seen_ && !check_body()) return false;
  if (parser_->is_done()) dispatch();
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
  for (const HttpHeader& header : shared_->handler->prepare(request_)) {
    common_headers_ += header.name + ": " + header.value + "\r\n";
  }
}

bool Connection::check_head() {
  fill_head();
  keep_alive_ = parser_->keep_alive();
  if (request_.headers.size() > options_.header_count_max) {
    refuse(431, cat("more than ", options_.header_count_max, " header lines"));
    return false;
  }
  if (const std::string_view fault = framing_fault(request_); !fault.empty()) {
    refuse(400, std::string(fault));
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
  parser_.reset();
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

}  // namespace glint
