#include "engine/engine_factory.h"

#include "base/error.h"
#include "cache/disk_tier.h"
#include "engine/cache_identity.h"
#include "engine/cpu_executor.h"
#include "engine/device_choice.h"
#include "engine/serving_engine.h"

namespace glint {

namespace {

/// Without the MTP layer's weights unless it will run: a device holds what the plan counted.
std::shared_ptr<const Model> make_model(std::shared_ptr<const Checkpoint> checkpoint, bool with_mtp) {
  ForwardRules rules = rules_of(checkpoint->config());
  ModelWeights weights = bind_weights(std::move(checkpoint));
  if (!with_mtp) weights.mtp = {};
  return std::make_shared<const Model>(std::move(weights), std::move(rules));
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

std::unique_ptr<Executor> make_executor(const std::shared_ptr<const Model>& model,
                                        const DeviceOptions& options, const DeviceMemory& device,
                                        const CudaSettings& cuda, const WeightsProgress& progress) {
  if (device.kind == DeviceKind::gpu)
    return make_cuda_executor(model, options, device.ordinal, cuda, progress);
  return std::make_unique<CpuExecutor>(std::make_unique<CpuDevice>(model, options));
}

std::string cache_identity(const Checkpoint& checkpoint, const DeviceOptions& device,
                           const DeviceMemory& memory) {
  return cache_identity_text(
      {.folder = checkpoint.folder(),
       .weights_made = checkpoint.shards() == 0,
       .dtype = device.dtype,
       .kv_cache_dtype = *device.kv_cache_dtype,
       .page_bytes = cache_layout(cached_config(checkpoint.config(), device.with_mtp), *device.kv_cache_dtype)
                         .page_bytes,
       .isa = device.isa,
       .gpu = memory.kind == DeviceKind::gpu ? memory.name : std::string(),
       .with_mtp = device.with_mtp});
}

std::unique_ptr<PageTier> make_tier(const EngineOptions& options, const std::string& identity,
                                    Executor& executor) {
  if (options.kv_disk_dir.empty()) return nullptr;
  return open_disk_tier(options.kv_disk_dir, identity, *executor.page_memory(),
                        {.bytes_max = options.kv_disk_bytes, .cache_pages = executor.pages_total()});
}

}  // namespace

CheckpointFormat stored_format(const Checkpoint& checkpoint) {
  const auto by_dtype = checkpoint.tensor_counts().by_dtype;
  if (by_dtype.contains(Dtype::u8)) return CheckpointFormat::nvfp4;
  return by_dtype.contains(Dtype::f8_e4m3) ? CheckpointFormat::fp8 : CheckpointFormat::bf16;
}

EnginePlan plan_engine(const Checkpoint& checkpoint, const EngineOptions& options) {
  const MemoryPlan plan = plan_memory(checkpoint.config(), cpu_request(stored_format(checkpoint), options));
  const StagePlan& stage = plan.stages.front();
  return {.max_model_len = plan.max_model_len,
          .cache_pages = plan.pages,
          .cache_bytes = sum_of(stage.cache),
          .step_bytes = stage.step.peak_bytes,
          .weight_bytes = checkpoint.file_bytes()};
}

std::unique_ptr<Engine> make_engine(std::shared_ptr<const Checkpoint> checkpoint,
                                    std::shared_ptr<const Tokenizer> tokenizer, const MemoryPlan& plan,
                                    OutputSink sink, const ExecutorWrap& wrap,
                                    const WeightsProgress& progress) {
  const EngineOptions& options = plan.request.engine;
  DeviceOptions device = step_options(options, plan.max_model_len, true);
  const std::shared_ptr<const Model> model = make_model(checkpoint, device.with_mtp);
  device.pages = plan.pages;
  device.step_bytes = plan.stages.front().step.peak_bytes;
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
  serving.cache_identity = cache_identity(*checkpoint, device, plan.request.device);
  auto executor = make_executor(model, device, plan.request.device, options.cuda, progress);
  if (wrap) executor = wrap(std::move(executor));
  auto tier = make_tier(options, serving.cache_identity, *executor);
  return std::make_unique<ServingEngine>(std::move(executor), std::move(tokenizer), serving, std::move(sink),
                                         std::move(tier));
}

std::unique_ptr<Engine> make_engine(std::shared_ptr<const Checkpoint> checkpoint,
                                    std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options,
                                    OutputSink sink, const ExecutorWrap& wrap) {
  const MemoryPlan plan = plan_memory(checkpoint->config(), cpu_request(stored_format(*checkpoint), options));
  return make_engine(std::move(checkpoint), std::move(tokenizer), plan, std::move(sink), wrap);
}

}  // namespace glint
