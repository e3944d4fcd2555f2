// The trained model in the box, served through the engine on either device.
#pragma once

#include <memory>

#include "engine/device_memory.h"
#include "engine/engine_options.h"
#include "nano_support.h"
#include "text/tokenizer.h"

namespace glint::gpu {

/// How the model is served.
struct NanoServing {
  DeviceKind device = DeviceKind::gpu;
  int64_t drafts = 0;
  bool together = true;  // all requests at once; otherwise one after the other
  bool prefix_caching = true;
  int64_t batched_tokens = 2048;
  CudaSettings cuda{};
  KvCacheDType cache = KvCacheDType::bfloat16;
  int64_t max_model_len = 4096;
  int64_t cached_tokens_max = 0;  // 0: as many as 512 MiB hold
  std::filesystem::path disk{};   // of the tier; empty: none
  int32_t logprobs = 2;           // 0: none, so that decoding runs in rounds
};

/// One engine. On a GPU its answers fail if serving took memory of the device.
class NanoEngine {
 public:
  explicit NanoEngine(const NanoServing& how);
  ~NanoEngine() = default;
  NanoEngine(const NanoEngine&) = delete;
  NanoEngine& operator=(const NanoEngine&) = delete;

  /// Greedy, of at most 160 tokens.
  std::vector<Answer> answers(const std::vector<std::string>& texts);
  [[nodiscard]] Engine& engine() { return *engine_; }

 private:
  NanoServing how_;
  Collector collector_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;  // ends before the collector
  int64_t free_when_ready_ = 0;
};

/// The answers of an engine that is started for them alone.
std::vector<Answer> serve_nano(const NanoServing& how, const std::vector<std::string>& texts);

}  // namespace glint::gpu
