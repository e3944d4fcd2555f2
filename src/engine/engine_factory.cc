#include "engine/engine_factory.h"

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "cache/paged_cache.h"
#include "engine/cpu_executor.h"
#include "engine/serving_engine.h"

namespace glint {

namespace {

constexpr int64_t kDefaultCacheBytes = int64_t{4} << 30;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// MemAvailable of /proc/meminfo, or -1 where there is none.
int64_t available_memory_bytes() {
  std::ifstream info("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  while (info >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    info.ignore(64, '\n');
  }
  return -1;
}

std::shared_ptr<const Model> make_model(std::shared_ptr<const Checkpoint> checkpoint) {
  ForwardRules rules = rules_of(checkpoint->config());
  return std::make_shared<const Model>(bind_weights(std::move(checkpoint)), std::move(rules));
}

DeviceOptions device_options(const EngineOptions& options, const EnginePlan& plan) {
  return {.dtype = options.dtype,
          .isa = options.isa,
          .threads = options.threads,
          .rows_max = options.max_num_batched_tokens,
          .logits_max = options.max_num_seqs,
          .context_max = plan.max_model_len,
          .pages = plan.cache_pages,
          .with_mtp = false};
}

void check_options(const EngineOptions& options, const ModelConfig& config) {
  if (options.max_num_seqs < 1) {
    fail(ErrorKind::bad_input, "--max-num-seqs ", options.max_num_seqs, ": expected at least 1");
  }
  if (options.max_num_batched_tokens < options.max_num_seqs) {
    fail(ErrorKind::bad_input, "max_num_batched_tokens (", options.max_num_batched_tokens,
         ") must be greater than or equal to max_num_seqs (", options.max_num_seqs,
         "): raise --max-num-batched-tokens or lower --max-num-seqs");
  }
  if (options.max_model_len != 0 && options.max_model_len < 2) {
    fail(ErrorKind::bad_input, "--max-model-len ", options.max_model_len, ": expected at least 2");
  }
  if (options.max_model_len > config.max_position_embeddings) {
    fail(ErrorKind::bad_input, "User-specified max_model_len (", options.max_model_len,
         ") is greater than the derived max_model_len (max_position_embeddings=",
         config.max_position_embeddings, " in config.json): lower --max-model-len");
  }
}

void size_cache(const ModelConfig& config, const EngineOptions& options, EnginePlan& plan) {
  const int64_t page_bytes = cache_layout(config, cache_format(options.dtype)).page_bytes;
  const bool automatic = options.max_model_len == 0;
  plan.max_model_len = automatic ? config.max_position_embeddings : options.max_model_len;
  const int64_t pages_per_sequence = ceil_div(plan.max_model_len, ops::kPageTokens);
  const int64_t budget =
      options.kv_cache_memory_bytes > 0 ? options.kv_cache_memory_bytes : kDefaultCacheBytes;
  plan.cache_pages = std::min(budget / page_bytes, pages_per_sequence * options.max_num_seqs);
  if (plan.cache_pages < 1) {
    fail(ErrorKind::bad_input, "--kv-cache-memory-bytes ", budget, ": one page of 64 tokens takes ",
         page_bytes);
  }
  plan.cache_bytes = plan.cache_pages * page_bytes;
  const int64_t fits = plan.cache_pages * ops::kPageTokens;
  if (fits >= plan.max_model_len) return;
  if (!automatic) {
    fail(ErrorKind::bad_input, "--max-model-len ", plan.max_model_len, ": one request needs ",
         pages_per_sequence * page_bytes, " bytes of cache, ", plan.cache_bytes, " are planned (", fits,
         " tokens): lower --max-model-len or raise --kv-cache-memory-bytes");
  }
  plan.max_model_len = fits;
}

}  // namespace

EnginePlan plan_engine(const Checkpoint& checkpoint, const EngineOptions& options) {
  const ModelConfig& config = checkpoint.config();
  check_options(options, config);
  EnginePlan plan;
  plan.weight_bytes = checkpoint.file_bytes();
  size_cache(config, options, plan);
  return plan;
}

std::unique_ptr<Engine> make_engine(std::shared_ptr<const Checkpoint> checkpoint,
                                    std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options,
                                    OutputSink sink) {
  EnginePlan plan = plan_engine(*checkpoint, options);
  const std::shared_ptr<const Model> model = make_model(checkpoint);
  const DeviceOptions device = device_options(options, plan);
  plan.step_bytes = planned_step_bytes(*model, device);
  const int64_t available = available_memory_bytes();
  if (available >= 0 && plan.cache_bytes + plan.step_bytes > available) {
    fail(ErrorKind::bad_input, "the plan takes ", plan.cache_bytes, " bytes of cache and ", plan.step_bytes,
         " of step memory, ", available,
         " are available: lower --kv-cache-memory-bytes, --max-model-len, --max-num-seqs or "
         "--max-num-batched-tokens");
  }
  ServingOptions serving;
  serving.max_model_len = plan.max_model_len;
  serving.scheduler = {.max_num_seqs = options.max_num_seqs,
                       .max_num_batched_tokens = options.max_num_batched_tokens};
  return std::make_unique<ServingEngine>(
      std::make_unique<CpuExecutor>(std::make_unique<CpuDevice>(model, device)), std::move(tokenizer),
      serving, std::move(sink));
}

}  // namespace glint
