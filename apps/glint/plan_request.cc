#include "plan_request.h"

#include "base/error.h"
#include "base/integers.h"
#include "engine/flags.h"

namespace glint {

namespace {

/// What a server runs together when no flag says otherwise, by the device's size.
struct BatchLimits {
  int64_t max_num_batched_tokens;
  int64_t max_num_seqs;
};

BatchLimits default_limits(const DeviceMemory& device) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  if (device.kind == DeviceKind::cpu) return {2048, 16};
  if (device.total_bytes >= 160 * kGiB) return {16384, 1024};
  if (device.total_bytes >= 70 * kGiB) return {8192, 1024};
  return {2048, 256};
}

int64_t batched_tokens(const MemoryFlags& flags, int64_t max_model_len, int64_t fallback) {
  const std::optional<int64_t> given = flags.max_num_batched_tokens;
  const int64_t whole_prompt = ceil_div(max_model_len, ops::kPageTokens) * ops::kPageTokens;
  if (!flags.chunked_prefill) {
    const int64_t rows = given.value_or(flags.chunked_prefill_size.value_or(whole_prompt));
    if (rows == -1 || rows >= max_model_len) return rows == -1 ? whole_prompt : rows;
    fail(ErrorKind::bad_input, "argument --no-enable-chunked-prefill: a step of ", rows,
         " tokens cannot hold a prompt of max_model_len (", max_model_len,
         "): raise --max-num-batched-tokens or lower --max-model-len");
  }
  if (!flags.chunked_prefill_size) return given.value_or(fallback);
  const int64_t chunk = *flags.chunked_prefill_size == -1 ? whole_prompt : *flags.chunked_prefill_size;
  if (given && chunk != *given) {
    fail(ErrorKind::bad_input, "argument --max-num-batched-tokens: ", *given, " and --chunked-prefill-size ",
         *flags.chunked_prefill_size, " name the same limit and differ: give one of them");
  }
  return chunk;
}

void set_parallel(const MemoryFlags& flags, PlanRequest& request) {
  const bool gpu = request.device.kind == DeviceKind::gpu;
  const bool sized = flags.tensor_parallel_size || flags.pipeline_parallel_size;
  // Without any size every GPU that was named takes part.
  request.layout.tensor_parallel =
      flags.tensor_parallel_size.value_or(gpu && !sized ? request.device.count : 1);
  request.pipeline_parallel = flags.pipeline_parallel_size.value_or(1);
  request.layout.data_parallel = flags.data_parallel_size;
  request.layout.expert_parallel = flags.expert_parallel || flags.expert_parallel_size.value_or(1) > 1;
  const int64_t ranks = request.layout.tensor_parallel * flags.data_parallel_size;
  if (const int64_t size = flags.expert_parallel_size.value_or(ranks); size != ranks && size != 1) {
    fail(
        ErrorKind::bad_input, "argument --expert-parallel-size: ", size,
        ": experts are spread over all ranks of a stage, --tensor-parallel-size times --data-parallel-size: ",
        ranks, " (or 1: each is sliced)");
  }
  request.layout.context_parallel = flags.decode_context_parallel_size;
  request.layout.stripe_index_keys = flags.stripe_index_keys;
  if (flags.stripe_index_keys && flags.decode_context_parallel_size == 1) {
    fail(ErrorKind::bad_input,
         "argument --dcp-stripe-index-keys: there is nothing to stripe over without "
         "--decode-context-parallel-size of at least 2");
  }
  request.strict_boundaries = flags.strict_boundaries;
  if (!flags.partition.empty()) request.partition = parse_partition(flags.partition);
}

}  // namespace

PlanRequest plan_request(const ServeFlags& flags, const ModelConfig& config, const DeclaredForm& form,
                         const DeviceMemory& device, EngineOptions options, std::vector<std::string>& notes) {
  const MemoryFlags& memory = flags.memory;
  const BatchLimits limits = default_limits(device);
  options.dtype = flags.dtype;
  const KvCacheChoice cache =
      choose_kv_cache_dtype(memory.kv_cache_dtype, options.dtype, device, form.fp8_cache);
  options.kv_cache_dtype = cache.dtype;
  notes.push_back(cat("kv-cache-dtype ", kv_cache_dtype_name(cache.dtype), ": ", cache.reason));
  options.max_model_len = memory.max_model_len.value_or(0);
  if (options.max_model_len > config.max_position_embeddings && options.allow_long_model_len) {
    notes.push_back(
        cat("max_model_len ", options.max_model_len, " is above max_position_embeddings ",
            config.max_position_embeddings,
            ": the model was not trained for positions beyond, answers there are not to be trusted"));
  }
  options.max_num_seqs = memory.max_num_seqs.value_or(limits.max_num_seqs);
  const int64_t longest = options.max_model_len > 0 ? options.max_model_len : config.max_position_embeddings;
  options.max_num_batched_tokens = batched_tokens(memory, longest, limits.max_num_batched_tokens);
  // More than all sequences together can ever bring takes memory for nothing; vLLM's rule.
  if (options.max_num_batched_tokens / options.max_num_seqs >= longest) {
    options.max_num_batched_tokens = options.max_num_seqs * longest;
  }
  PlanRequest request;
  request.format = form.format;
  request.device = device;
  request.engine = options;
  set_parallel(memory, request);
  return request;
}

}  // namespace glint
