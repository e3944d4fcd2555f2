// The exchange of an answer that nobody waits for: what it says is kept elsewhere (response_store.h).
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "server/http.h"

namespace glint {

class DetachedExchange : public HttpExchange {
 public:
  using Post = std::function<void(std::function<void()> task)>;
  /// `post` runs a task on io thread `thread`.
  DetachedExchange(int thread, Post post) : thread_(thread), post_(std::move(post)) {}

  /// As if the client had left. On the io thread.
  void leave() {
    if (gone_.exchange(true)) return;
    if (const auto callback = std::exchange(on_gone_, nullptr)) callback();
  }

  [[nodiscard]] bool gone() const override { return gone_; }
  void post(std::function<void()> task) override { post_(std::move(task)); }
  [[nodiscard]] int thread() const override { return thread_; }
  void on_gone(std::function<void()> callback) override { on_gone_ = std::move(callback); }
  void respond(HttpResponse /*response*/) override { on_gone_ = nullptr; }
  void start_stream(HttpResponse /*head*/) override {}
  void send(std::string_view /*bytes*/) override {}
  void finish() override { on_gone_ = nullptr; }

 private:
  int thread_;
  Post post_;
  std::atomic<bool> gone_{false};
  std::function<void()> on_gone_;
};

}  // namespace glint
