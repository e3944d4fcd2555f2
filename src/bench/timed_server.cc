#include "bench/timed_server.h"

namespace glint::bench {

TimedServer::TimedServer(std::shared_ptr<const Tokenizer> tokenizer, int64_t vocab_size,
                         TimedServerOptions options) {
  ApiSettings settings;
  settings.model_names = std::move(options.model_names);
  settings.model_root = std::move(options.model_root);
  settings.health.ready_within = std::chrono::milliseconds(0);
  settings.health.watchdog.step_limit = std::chrono::milliseconds(0);
  HttpOptions http;
  http.host = "127.0.0.1";
  http.port = options.port;
  service_ = std::make_unique<ApiService>(settings, http, 2);
  service_->set_access_log(false);
  service_->start();
  control_->step_us = options.step_us;
  const ServingOptions& serving = options.serving;
  const int64_t pages = serving.scheduler.max_num_seqs * Scheduler::pages_for(serving.max_model_len) + 1;
  engine_ = std::make_shared<ServingEngine>(
      std::make_unique<TimedExecutor>(timed_config(vocab_size), pages,
                                      serving.scheduler.max_num_batched_tokens, control_,
                                      tokenizer->encode("a", false).front()),
      tokenizer, serving, service_->sink());
  ServedModel model;
  model.engine = engine_;
  model.vocab_size = vocab_size;
  if (options.chat_template) {
    model.chat_template = options.chat_template;
    model.tags = std::make_shared<const OutputTags>(*tokenizer);
  }
  model.tokenizer = std::move(tokenizer);
  service_->set_ready(std::move(model));
}

}  // namespace glint::bench
