// The life of `glint serve`: bind, load, serve, drain.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "checkpoint/hub/resolve.h"
#include "engine/engine_factory.h"
#include "server/api_service.h"
#include "text/chat_template.h"

namespace glint {

struct ServeOptions {
  std::string folder;     // with config.json; of a hub's model the rest may still be missing
  std::string model;      // as the user called it
  ResolveOptions source;  // where the rest of it comes from
  ApiSettings api;
  HttpOptions http;
  int worker_threads = 2;
  bool dummy_weights = false;              // made from config.json in the planned form, not read
  MemoryPlan plan;                         // of this machine; what the engine allocates
  std::string generation_config = "auto";  // "auto": the model's, "vllm": none, else a folder
  OrderedJson override_generation_config = OrderedJson::object();  // its keys, above the former
  std::optional<ChatTemplate> chat_template;                       // absent: the model folder's
  std::chrono::seconds shutdown_timeout{30};
  bool access_log = true;
  bool sglang_lines = false;              // SGLang's lines at the start, beside vLLM's
  bool stay_when_dead = false;            // keep answering (503) after the engine has died
  std::chrono::seconds stats_period{10};  // 0: no throughput lines
};

/// Returns after a signal and the drain that follows it. Throws what made serving impossible.
void run_server(ServeOptions options);

}  // namespace glint
