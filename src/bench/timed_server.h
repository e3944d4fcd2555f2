// A whole server on a device without a model, whose steps take a fixed time: for measuring what is not the
// model, and for measuring the measurers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/timed_executor.h"
#include "engine/serving_engine.h"
#include "server/api_service.h"

namespace glint::bench {

struct TimedServerOptions {
  std::vector<std::string> model_names{"bench"};
  std::string model_root;
  int port = 0;  // 0: any free one
  int64_t step_us = 0;
  ServingOptions serving;
  /// Chat requests are refused without one.
  std::optional<ChatTemplate> chat_template;
};

class TimedServer {
 public:
  /// Answers when it is made, on 127.0.0.1.
  TimedServer(std::shared_ptr<const Tokenizer> tokenizer, int64_t vocab_size, TimedServerOptions options);
  ~TimedServer() { service_->stop(); }
  TimedServer(const TimedServer&) = delete;
  TimedServer& operator=(const TimedServer&) = delete;

  [[nodiscard]] int port() const { return service_->http().port(); }
  [[nodiscard]] EngineStats stats() const { return engine_->stats(); }

 private:
  std::shared_ptr<TimedExecutor::Control> control_ = std::make_shared<TimedExecutor::Control>();
  std::unique_ptr<ApiService> service_;
  std::shared_ptr<ServingEngine> engine_;
};

}  // namespace glint::bench
