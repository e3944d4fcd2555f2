#include "engine/engine_factory.h"

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "cache/disk_tier.h"
#include "engine/cache_identity.h"
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

KvCacheDType kv_cache_dtype(const EngineOptions& options) {
  return options.kv_cache_dtype.value_or(default_kv_cache_dtype(options.dtype));
}

/// The most drafts that a step may hold. Chosen by the engine: what the step's rows leave room for.
int64_t drafts_max(const EngineOptions& options) {
  if (options.num_speculative_tokens != kSpeculativeTokensAuto) return options.num_speculative_tokens;
  return std::clamp<int64_t>(options.max_num_batched_tokens / options.max_num_seqs - 1, 1,
                             kSpeculativeTokensMax);
}

DeviceOptions device_options(const EngineOptions& options, const EnginePlan& plan) {
  return {
      .dtype = options.dtype,
      .kv_cache_dtype = kv_cache_dtype(options),
      .isa = options.isa,
      .threads = options.threads,
      .rows_max = options.max_num_batched_tokens,
      .logits_max = options.max_num_seqs * (1 + drafts_max(options)) + SchedulerOptions{}.prompt_logprob_rows,
      .context_max = plan.max_model_len,
      .pages = plan.cache_pages,
      .with_mtp = options.num_speculative_tokens != 0,
      .drafting_max = options.max_num_seqs};
}

void check_disk_options(const EngineOptions& options, const ModelConfig& config) {
  if (options.kv_disk_dir.empty() && options.kv_disk_bytes == 0) return;
  if (options.kv_disk_dir.empty() || options.kv_disk_bytes == 0) {
    fail(ErrorKind::bad_input, "--kv-disk-dir and --kv-disk-bytes go together: give both or neither");
  }
  if (!options.prefix_caching) {
    fail(ErrorKind::bad_input, "--kv-disk-dir keeps pages of the prefix cache: drop it or ",
         "--no-enable-prefix-caching");
  }
  const PageFileFormat format{cache_layout(config, kv_cache_dtype(options)).page_bytes, {}};
  if (options.kv_disk_bytes < format.file_bytes()) {
    fail(ErrorKind::bad_input, "--kv-disk-bytes ", options.kv_disk_bytes, ": one page of 64 tokens takes ",
         format.file_bytes());
  }
}

void check_options(const EngineOptions& options, const ModelConfig& config) {
  check_disk_options(options, config);
  if (options.max_num_seqs < 1) {
    fail(ErrorKind::bad_input, "--max-num-seqs ", options.max_num_seqs, ": expected at least 1");
  }
  if (options.max_num_batched_tokens < options.max_num_seqs) {
    fail(ErrorKind::bad_input, "max_num_batched_tokens (", options.max_num_batched_tokens,
         ") must be greater than or equal to max_num_seqs (", options.max_num_seqs,
         "): raise --max-num-batched-tokens or lower --max-num-seqs");
  }
  if (options.num_speculative_tokens < kSpeculativeTokensAuto ||
      options.num_speculative_tokens > kSpeculativeTokensMax) {
    fail(ErrorKind::bad_input, "--speculative-config.num_speculative_tokens ", options.num_speculative_tokens,
         ": expected 1 to ", kSpeculativeTokensMax, ", or auto");
  }
  if (options.num_speculative_tokens != 0 && !config.has_mtp()) {
    fail(ErrorKind::bad_input,
         "--speculative-config: this checkpoint has no MTP layer (num_nextn_predict_layers is 0)");
  }
  const int64_t rows = options.max_num_seqs * (1 + drafts_max(options));
  if (options.max_num_batched_tokens < rows) {
    fail(ErrorKind::bad_input, "max_num_batched_tokens (", options.max_num_batched_tokens,
         ") must be at least max_num_seqs times one more than num_speculative_tokens (", rows,
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

/// The context at which a row's work with the indexer's keys equals all its other work, in multiply-adds:
/// from there on a row counts double in a step's budget.
double context_cost_tokens(const ModelConfig& config) {
  double per_row = 0;
  double per_token = 0;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const double attention_tokens = number(config.index_topk);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    per_row +=
        number(config.hidden_size * (config.q_lora_rank + config.kv_lora_rank + config.qk_rope_head_dim));
    per_row +=
        number(config.num_attention_heads) *
        number(config.q_lora_rank * config.qk_head_dim() + config.kv_lora_rank * config.qk_nope_head_dim +
               config.kv_lora_rank * config.v_head_dim + config.v_head_dim * config.hidden_size);
    per_row += number(config.num_attention_heads * (2 * config.kv_lora_rank + config.qk_rope_head_dim)) *
               attention_tokens;
    const int64_t mlp = config.is_sparse(layer) ? config.moe_intermediate_size *
                                                      (config.num_experts_per_tok + config.n_shared_experts)
                                                : config.intermediate_size;
    per_row += number(3 * config.hidden_size * mlp);
    if (config.has_indexer(layer)) per_token += number(config.index_n_heads * config.index_head_dim);
  }
  return per_row / per_token;
}

void size_cache(const ModelConfig& config, const EngineOptions& options, EnginePlan& plan) {
  const int64_t page_bytes = cache_layout(config, kv_cache_dtype(options)).page_bytes;
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

std::string cache_identity(const Checkpoint& checkpoint, const DeviceOptions& device) {
  return cache_identity_text(
      {.folder = checkpoint.folder(),
       .dtype = device.dtype,
       .kv_cache_dtype = *device.kv_cache_dtype,
       .page_bytes = cache_layout(checkpoint.config(), *device.kv_cache_dtype).page_bytes,
       .isa = device.isa,
       .with_mtp = device.with_mtp});
}

std::unique_ptr<PageTier> make_tier(const EngineOptions& options, const std::string& identity,
                                    Executor& executor) {
  if (options.kv_disk_dir.empty()) return nullptr;
  return open_disk_tier(options.kv_disk_dir, identity, *executor.page_memory(),
                        {.bytes_max = options.kv_disk_bytes, .cache_pages = executor.pages_total()});
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
  serving.queue = options.queue;
  serving.idle_spin = options.idle_spin;
  serving.logprobs_mode = options.logprobs_mode;
  serving.by_priority = options.by_priority;
  serving.scheduler = {.max_num_seqs = options.max_num_seqs,
                       .max_num_batched_tokens = options.max_num_batched_tokens,
                       .prefix_caching = options.prefix_caching,
                       .num_speculative_tokens = drafts_max(options),
                       .context_cost_tokens = context_cost_tokens(checkpoint->config())};
  serving.choose_drafts = options.num_speculative_tokens == kSpeculativeTokensAuto;
  serving.cache_identity = cache_identity(*checkpoint, device);
  auto executor = std::make_unique<CpuExecutor>(std::make_unique<CpuDevice>(model, device));
  auto tier = make_tier(options, serving.cache_identity, *executor);
  return std::make_unique<ServingEngine>(std::move(executor), std::move(tokenizer), serving, std::move(sink),
                                         std::move(tier));
}

}  // namespace glint
