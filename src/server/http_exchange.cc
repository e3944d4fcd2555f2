#include "server/http_exchange.h"

#include <boost/asio/post.hpp>

namespace glint {

Connection::Exchange::~Exchange() {
  if (done_) return;
  asio::post(io_.context, [connection = connection_, serial = serial_] {
    if (const auto target = connection.lock()) {
      target->respond(serial,
                      target->shared_->handler->refusal(500, "the request was dropped without an answer"));
    }
  });
}

void Connection::Exchange::post(std::function<void()> task) {
  asio::post(io_.context, std::move(task));
}

void Connection::Exchange::lose() {
  gone_ = true;
  done_ = true;
  if (on_gone_) asio::post(io_.context, std::move(on_gone_));
  on_gone_ = nullptr;
}

}  // namespace glint
