// Connection: answers and their way to the client.
#include <boost/asio/post.hpp>
#include <charconv>
#include <ctime>

#include "base/error.h"
#include "base/log.h"
#include "server/http_connection.h"
#include "server/http_exchange.h"

namespace glint {

namespace {

constexpr size_t kKeptCapacityBytes = size_t{16} << 10;  // larger buffers are given back after use
constexpr size_t kCompactFromBytes = size_t{64} << 10;   // of sent bytes in front of unsent ones

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[40];
  const size_t bytes = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return {text, bytes};
}

}  // namespace

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
  out_ += common_headers_;
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
  if (unsent() > options_.backlog_bytes_max && write_blocked_) {
    log_warning("client ", peer_, " takes its stream too slowly: dropped with ", unsent(), " bytes waiting");
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

/// Writes what the client takes now; what it does not take goes when its socket says so.
void Connection::flush() {
  if (write_blocked_ || state_ == State::closed) return;
  while (unsent() > 0) {
    const Wire::Result result = wire_.write(std::string_view(out_).substr(sent_));
    if (result.status == Wire::Status::done) {
      sent_ += result.bytes;
      continue;
    }
    if (result.status == Wire::Status::failed || result.status == Wire::Status::ended) {
      count_gone();
      return close();
    }
    write_blocked_ = true;
    write_deadline_ = Clock::now() + options_.write_stall_timeout;
    if (sent_ >= kCompactFromBytes && sent_ >= out_.size() / 2) {
      out_.erase(0, sent_);
      sent_ = 0;
    }
    return result.status == Wire::Status::want_read ? wait_readable() : wait_writable();
  }
  out_.clear();
  sent_ = 0;
  if (out_.capacity() > kKeptCapacityBytes) out_.shrink_to_fit();
  if (state_ == State::answered) on_answer_written();
}

/// The client has the whole answer: on to its next request, or to the end.
void Connection::on_answer_written() {
  if (!keep_alive_ || peer_closed_) return linger();
  parser_.reset();
  head_seen_ = false;
  set_state(State::reading);
  idle_since_ = Clock::now();
  set_deadline(options_.idle_timeout);
  last_deadline_ = Clock::time_point::max();
  // A pipelined request, or a read that stopped at too many of them. Not from here: the call may come from
  // a handler.
  if (!parsing_ && (buffer_.size() > 0 || !waiting_read_)) {
    asio::post(io_.context, [self = shared_from_this()] { self->resume(); });
  }
}

}  // namespace glint
