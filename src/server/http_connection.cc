#include "server/http_connection.h"

#include <boost/asio/post.hpp>

#include "base/log.h"
#include "server/http_exchange.h"

namespace glint {

Connection::Connection(IoThread& io, std::shared_ptr<ServerShared> shared, Wire wire, std::string peer)
    : io_(io),
      shared_(std::move(shared)),
      options_(shared_->options),
      wire_(std::move(wire)),
      peer_(std::move(peer)) {}

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
  idle_since_ = Clock::now();
  set_deadline(options_.header_timeout);
  resume();
}

std::optional<Clock::time_point> Connection::idle_since() const {
  const bool idle =
      state_ == State::handshaking || (state_ == State::reading && !parser_ && buffer_.size() == 0);
  return idle ? std::optional(idle_since_) : std::nullopt;
}

void Connection::wait_readable() {
  if (waiting_read_ || peer_closed_ || state_ == State::closed) return;
  if (buffer_.size() == 0) buffer_.shrink_to_fit();  // nothing is held for those who wait
  waiting_read_ = true;
  wire_.socket().async_wait(StreamSocket::wait_read, [self = shared_from_this()](beast::error_code) {
    self->waiting_read_ = false;
    self->resume();
  });
}

void Connection::wait_writable() {
  if (waiting_write_ || state_ == State::closed) return;
  waiting_write_ = true;
  wire_.socket().async_wait(StreamSocket::wait_write, [self = shared_from_this()](beast::error_code) {
    self->waiting_write_ = false;
    self->resume();
  });
}

void Connection::resume() {
  if (state_ == State::closed) return;
  try {
    go_on();
  } catch (const std::exception& failure) {
    log_error("connection ", peer_, " ended: ", failure.what());
    close();
  }
}

void Connection::go_on() {
  if (state_ == State::handshaking) return shake_hands();
  if (write_blocked_) {
    write_blocked_ = false;
    flush();
  }
  if (state_ == State::reading) parse();  // what came while the request before was being answered
  read_on();
}

void Connection::shake_hands() {
  switch (wire_.handshake().status) {
    case Wire::Status::done:
      set_state(State::reading);
      set_deadline(options_.header_timeout);
      return read_on();
    case Wire::Status::want_read:
      return wait_readable();
    case Wire::Status::want_write:
      return wait_writable();
    default:
      log_debug("client ", peer_, ": no TLS handshake");
      return close();
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

void Connection::linger() {
  if (peer_closed_) return close();
  set_state(State::lingering);
  parser_.reset();
  wire_.end_writing();
  set_deadline(options_.linger_timeout);
  buffer_.consume(buffer_.size());
  wait_readable();
}

void Connection::close() {
  if (state_ == State::closed) return;
  const bool unanswered = state_ == State::busy || state_ == State::streaming;
  set_state(State::closed);
  wire_.close();
  if (const auto exchange = exchange_.lock(); exchange && unanswered) exchange->lose();
  body_share_ = nullptr;
  // The map holds a reference, and the caller may be walking it.
  asio::post(io_.context, [self = shared_from_this()] { self->io_.connections.erase(self.get()); });
}

void Connection::tick_ping(Clock::time_point now) {
  if (now - last_sent_ < options_.ping_interval || write_blocked_) return;
  append_framed(": ping\n\n");
  last_sent_ = now;
  flush();
}

void Connection::tick(Clock::time_point now) {
  if (write_blocked_ && now > write_deadline_) {
    log_warning("client ", peer_, " has taken nothing of its answer for too long: dropped");
    ++shared_->ended_stalled;
    return close();
  }
  if (state_ == State::streaming) tick_ping(now);
  if ((state_ == State::lingering || state_ == State::handshaking) && now > deadline_) return close();
  if (state_ != State::reading || (now <= deadline_ && now <= last_deadline_)) return;
  if (!parser_) return close();
  refuse(408, head_seen_ ? "the body did not arrive in time" : "the header did not arrive in time");
}

}  // namespace glint
