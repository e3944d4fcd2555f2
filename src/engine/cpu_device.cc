#include "engine/cpu_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "model/draft_round.h"
#include "ops/cpu/cpu_ops.h"

namespace glint {

namespace {

DeviceOptions completed(DeviceOptions options, const ModelConfig& config) {
  if (options.context_max == 0) options.context_max = config.max_position_embeddings;
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

KvCacheDType default_kv_cache_dtype(ops::ComputeDType dtype) {
  return dtype == ops::ComputeDType::float32 ? KvCacheDType::float32 : KvCacheDType::bfloat16;
}

int64_t planned_step_bytes(const Model& model, const DeviceOptions& given) {
  const DeviceOptions options = completed(given, model.config());
  // The pool's size alone decides the per-thread scratch; a plan needs no running threads beyond that number.
  ThreadPool pool(options.threads);
  ops::Arena arena;
  const auto ops = ops::cpu::make_cpu_ops(pool, options.isa, options.dtype, arena);
  const ModelCaches caches = planned_views(model.config(), *options.kv_cache_dtype);
  const auto step_of = [&](int64_t rows, int64_t logits) {
    return Step{.tokens = nullptr,
                .rows = {.rows = rows, .context_max = options.context_max},
                .logits_rows = nullptr,
                .logits_count = std::min(rows, logits)};
  };
  const ops::Arena::Scope scope(arena);
  const StepResult result = model.forward(*ops, step_of(options.rows_max, options.logits_max), caches);
  if (options.with_mtp) {
    DraftRound round(model, *ops, result.final_hidden);
    const int64_t drafting = options.drafting_max > 0 ? options.drafting_max : options.logits_max;
    round.first(step_of(options.rows_max, drafting), nullptr, caches);
    round.later(step_of(std::min(options.rows_max, drafting), drafting), nullptr, caches);
  }
  return arena.peak_bytes();
}

CpuDevice::CpuDevice(std::shared_ptr<const Model> model, const DeviceOptions& options)
    : model_(std::move(model)),
      options_(completed(options, model_->config())),
      step_bytes_(planned_step_bytes(*model_, options_)),
      slab_(take_slab(step_bytes_)),
      pool_(options_.threads),
      arena_(slab_, step_bytes_),
      cache_(model_->config(), *options_.kv_cache_dtype, options_.pages),
      ops_(ops::cpu::make_cpu_ops(pool_, options_.isa, options_.dtype, arena_)) {}

CpuDevice::~CpuDevice() {
  ::munmap(slab_, static_cast<size_t>(step_bytes_));
}

}  // namespace glint
