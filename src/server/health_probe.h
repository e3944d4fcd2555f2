// A request of one token through the real engine that asks whether it still works. It is no traffic: neither
// counted nor refused for a full queue.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "server/answer.h"

namespace glint {

/// Lives on one io thread.
class HealthProbe : public StepReceiver, public std::enable_shared_from_this<HealthProbe> {
 public:
  /// Called once with the failure, or an empty text.
  using Done = std::function<void(const std::string& failure)>;

  /// `thread` is the io thread that it lives on.
  HealthProbe(std::shared_ptr<Engine> engine, StepRouter& router, int thread, Done done)
      : engine_(std::move(engine)), router_(router), thread_(thread), done_(std::move(done)) {}

  /// Sends `token` as the prompt; once. The engine's refusal goes to `done`, within the call.
  void submit(TokenId token);
  /// Nobody waits any longer: `done` is not called.
  void cancel();

  void step(size_t choice, const StepOutput& output) override;
  void fail(const ApiError& error) override;

 private:
  void finish(const std::string& failure);

  std::shared_ptr<Engine> engine_;
  StepRouter& router_;
  int thread_;
  Done done_;
  uint64_t user_ = 0, engine_id_ = 0;
  bool open_ = true;
};

}  // namespace glint
