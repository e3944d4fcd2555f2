// A whole API server on the real engine with a device of a fixed step time (bench/timed_executor.h).
#pragma once

#include "api_fixture.h"
#include "bench/timed_executor.h"
#include "byte_tokenizer.h"
#include "engine/serving_engine.h"

namespace glint {

class LifeTest : public ::testing::Test {
 protected:
  using Ms = std::chrono::milliseconds;

  LifeTest() {
    set_log_level(LogLevel::off);
    settings.model_names = {"glm-5.3"};
    settings.model_root = "/models/glm";
    http.host = "127.0.0.1";
    http.port = 0;
    serving.max_model_len = 1024;
    serving.scheduler = {.max_num_seqs = 4, .max_num_batched_tokens = 64};
  }
  ~LifeTest() override {
    control->release();
    if (service) service->stop();
  }

  /// Settings may be changed up to here.
  void start(bool ready = true) {
    service = std::make_unique<ApiService>(settings, http, 2);
    service->set_watchdog_exit([this] { ++exits; });
    service->start();
    engine = std::make_shared<ServingEngine>(
        std::make_unique<bench::TimedExecutor>(bench::timed_config(256), pages,
                                               serving.scheduler.max_num_batched_tokens, control),
        tokenizer, serving, service->sink());
    if (ready) make_ready();
  }
  void make_ready() {
    ServedModel model;
    model.engine = engine;
    model.tokenizer = tokenizer;
    model.vocab_size = 256;
    service->set_ready(std::move(model));
  }
  [[nodiscard]] int port() const { return service->http().port(); }
  [[nodiscard]] RawResponse get(std::string_view path) const { return fetch(port(), get_text(path)); }
  /// A completion of `max_tokens` letters for a prompt of `prompt_tokens`.
  [[nodiscard]] static std::string completion(int64_t prompt_tokens, int64_t max_tokens, bool stream) {
    return post_text("/v1/completions",
                     dump_json(OrderedJson{{"prompt", std::string(static_cast<size_t>(prompt_tokens), 'x')},
                                           {"max_tokens", max_tokens},
                                           {"temperature", 0},
                                           {"ignore_eos", true},
                                           {"stream", stream}}));
  }
  [[nodiscard]] EngineStats stats() const { return engine->stats(); }
  /// No request is anywhere in the engine, and no page is held.
  [[nodiscard]] bool empty() const {
    const EngineStats now = engine->stats();
    return now.running == 0 && now.waiting == 0 && now.pages_used == 0;
  }

  ApiSettings settings;
  HttpOptions http;
  ServingOptions serving;
  int64_t pages = 256;
  std::atomic<int> exits{0};
  std::shared_ptr<const Tokenizer> tokenizer = std::make_shared<ByteTokenizer>();
  std::shared_ptr<bench::TimedExecutor::Control> control = std::make_shared<bench::TimedExecutor::Control>();
  std::unique_ptr<ApiService> service;
  std::shared_ptr<ServingEngine> engine;
};

}  // namespace glint
