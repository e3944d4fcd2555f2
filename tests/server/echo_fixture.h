// A bare HTTP server with a handler that echoes, for tests of the transport.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log.h"
#include "raw_client.h"
#include "server/http_server.h"

namespace glint {

using Ms = std::chrono::milliseconds;

template <class Condition>
bool eventually(Condition condition, int timeout_ms = 5000) {
  const auto end = std::chrono::steady_clock::now() + Ms(timeout_ms);
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(Ms(2));
  }
  return condition();
}

/// /echo answers method and body; /hold never answers; /stream streams until the client has gone; /drop
/// forgets.
class EchoHandler : public HttpHandler {
 public:
  std::optional<HttpResponse> screen(const HttpRequest& head) override {
    ++screened;
    if (head.path == "/refused") return HttpResponse{401, "text/plain", "no", {}, false};
    return std::nullopt;
  }
  void handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) override {
    ++handled;
    exchange->on_gone([this] { ++gone; });
    if (request.path == "/drop") return;
    if (request.path == "/hold" || request.path == "/stream" || request.path == "/flood") {
      if (request.path != "/hold") exchange->start_stream({200, "text/event-stream", "", {}, false});
      const std::lock_guard lock(mutex);
      held.push_back(std::move(exchange));
      return;
    }
    exchange->respond(
        {200, "text/plain", request.method + " " + request.path + " " + request.body, {}, false});
  }
  HttpResponse refusal(int status, const std::string& reason) override {
    return {status, "text/plain", reason, {}, false};
  }
  void answered(const HttpAccess& access) override { last_status = access.status; }

  std::shared_ptr<HttpExchange> first_held() {
    const std::lock_guard lock(mutex);
    return held.empty() ? nullptr : held.front();
  }

  std::atomic<int> screened{0}, handled{0}, gone{0}, last_status{0};
  std::mutex mutex;
  std::vector<std::shared_ptr<HttpExchange>> held;
};

class HttpTest : public ::testing::Test {
 protected:
  void start(HttpOptions options = {}) {
    set_log_level(LogLevel::off);
    options.host = "127.0.0.1";
    options.port = 0;
    server = std::make_unique<HttpServer>(options, handler);
    server->start();
  }
  void TearDown() override {
    if (server) server->stop();
    const std::lock_guard lock(handler.mutex);
    handler.held.clear();
  }
  [[nodiscard]] int port() const { return server->port(); }

  EchoHandler handler;
  std::unique_ptr<HttpServer> server;
};

}  // namespace glint
