#include "engine/cpu_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "engine/scheduler.h"
#include "model/draft_round.h"
#include "ops/cpu/cpu_ops.h"

namespace glint {

namespace {

DeviceOptions completed(DeviceOptions options, const ModelConfig& config) {
  if (options.context_max == 0) options.context_max = config.max_position_embeddings;
  if (options.indexer_scratch_bytes == 0) options.indexer_scratch_bytes = ops::cpu::kIndexerScratchBytes;
  if (!options.kv_cache_dtype) options.kv_cache_dtype = default_kv_cache_dtype(options.dtype);
  return options;
}

std::byte* take_slab(int64_t bytes) {
  void* memory =
      ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail(ErrorKind::io, "step memory: cannot take ", bytes, " bytes: ", std::strerror(errno),
         "; lower --max-num-batched-tokens");
  }
  return static_cast<std::byte*>(memory);
}

}  // namespace

ModelConfig cached_config(const ModelConfig& config, bool with_mtp) {
  ModelConfig cached = config;
  if (!with_mtp) cached.num_nextn_predict_layers = 0;
  return cached;
}

KvCacheDType default_kv_cache_dtype(ops::ComputeDType dtype) {
  return dtype == ops::ComputeDType::float32 ? KvCacheDType::float32 : KvCacheDType::bfloat16;
}

int64_t drafts_max(const EngineOptions& options) {
  if (options.num_speculative_tokens != kSpeculativeTokensAuto) return options.num_speculative_tokens;
  return std::clamp<int64_t>(options.max_num_batched_tokens / options.max_num_seqs - 1, 1,
                             kSpeculativeTokensMax);
}

DeviceOptions step_options(const EngineOptions& options, int64_t context, bool with_head) {
  return {.dtype = options.dtype,
          .kv_cache_dtype = options.kv_cache_dtype.value_or(default_kv_cache_dtype(options.dtype)),
          .isa = options.isa,
          .threads = options.threads,
          .rows_max = options.max_num_batched_tokens,
          .logits_max = with_head ? options.max_num_seqs * (1 + drafts_max(options)) +
                                        SchedulerOptions{}.prompt_logprob_rows
                                  : 0,
          .context_max = context,
          .with_mtp = with_head && options.num_speculative_tokens != 0,
          .drafting_max = options.max_num_seqs,
          .drafts_max = drafts_max(options),
          .drafts_vary = options.num_speculative_tokens == kSpeculativeTokensAuto,
          .indexer_scratch_bytes = options.indexer_scratch_bytes};
}

ops::StepMemory planned_step(const Model& model, const DeviceOptions& given, ops::Ops& inner) {
  const DeviceOptions options = completed(given, model.config());
  ops::StepMeter ops(inner);
  const ModelCaches caches = planned_views(model.config(), *options.kv_cache_dtype);
  const auto step_of = [&](int64_t rows, int64_t logits) {
    return Step{.tokens = nullptr,
                .rows = {.rows = rows, .context_max = options.context_max},
                .logits_rows = nullptr,
                .logits_count = std::min(rows, logits)};
  };
  {
    const ops::Arena::Scope scope(ops.arena());
    const StepResult result = model.forward(ops, step_of(options.rows_max, options.logits_max), caches);
    if (options.with_mtp) {
      DraftRound round(model, ops, result.final_hidden);
      const int64_t drafting = options.drafting_max > 0 ? options.drafting_max : options.logits_max;
      round.first(step_of(options.rows_max, drafting), nullptr, caches);
      round.later(step_of(std::min(options.rows_max, drafting), drafting), nullptr, caches);
    }
  }
  return ops.memory();
}

ops::StepMemory planned_step(const Model& model, const DeviceOptions& given, ThreadPool& pool) {
  const DeviceOptions options = completed(given, model.config());
  ops::Arena arena;
  const auto ops =
      ops::cpu::make_cpu_ops(pool, options.isa, options.dtype, arena, options.indexer_scratch_bytes);
  return planned_step(model, options, *ops);
}

Step step_of(const StepDescription& description) {
  return {.tokens = description.tokens.data(),
          .rows = {.rows = static_cast<int64_t>(description.tokens.size()),
                   .position = description.positions.data(),
                   .sequence = description.sequences.data(),
                   .pages = description.pages.data(),
                   .pages_stride = description.pages_stride,
                   .context_max = description.context_max},
          .logits_rows = description.logits_rows.data(),
          .logits_count = static_cast<int64_t>(description.logits_rows.size())};
}

CpuDevice::CpuDevice(std::shared_ptr<const Model> model, const DeviceOptions& options)
    : model_(std::move(model)),
      options_(completed(options, model_->config())),
      pool_(options_.threads),
      step_bytes_(options_.step_bytes > 0 ? options_.step_bytes
                                          : planned_step(*model_, options_, pool_).peak_bytes),
      slab_(take_slab(step_bytes_)),
      arena_(slab_, step_bytes_),
      cache_(cached_config(model_->config(), options_.with_mtp), *options_.kv_cache_dtype, options_.pages),
      ops_(ops::cpu::make_cpu_ops(pool_, options_.isa, options_.dtype, arena_,
                                  options_.indexer_scratch_bytes)) {}

CpuDevice::~CpuDevice() {
  ::munmap(slab_, static_cast<size_t>(step_bytes_));
}

}  // namespace glint
