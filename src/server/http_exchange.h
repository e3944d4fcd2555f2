// The exchange of one request, as its handler holds it. Internal to the HTTP server.
#pragma once

#include "server/http_connection.h"

namespace glint {

class Connection::Exchange : public HttpExchange {
 public:
  /// `serial` names the request on its connection.
  Exchange(IoThread& io, std::weak_ptr<Connection> connection, uint64_t serial)
      : io_(io), connection_(std::move(connection)), serial_(serial) {}
  ~Exchange() override;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  [[nodiscard]] bool gone() const override { return gone_; }
  void post(std::function<void()> task) override;
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
  void lose();
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

}  // namespace glint
