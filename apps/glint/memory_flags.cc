#include "memory_flags.h"

#include <charconv>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "engine/flags.h"
#include "server/serve_options.h"

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

double parse_share(std::string_view flag, const std::string& text) {
  double share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(ErrorKind::bad_input, "argument ", flag, ": invalid float value: '", text, "'");
  }
  return share;
}

int64_t parse_size(std::string_view flag, const std::string& text, int64_t fallback) {
  if (text.empty()) return fallback;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 65536) {
    fail(ErrorKind::bad_input, "argument ", flag, ": invalid int value: '", text, "' (expected at least 1)");
  }
  return value;
}

int64_t human(std::string_view flag, const std::string& text, int64_t fallback) {
  return text.empty() ? fallback : parse_human_integer(flag, text);
}

/// --chunked-prefill-size: -1 means one chunk a prompt. 0: not given.
int64_t chunk_rows(const MemoryFlags& flags, int64_t max_model_len) {
  if (flags.chunked_prefill_size.empty()) return 0;
  if (flags.chunked_prefill_size == "-1") return (max_model_len + 63) / 64 * 64;
  const int64_t rows = parse_human_integer("--chunked-prefill-size", flags.chunked_prefill_size);
  if (rows % ops::kPageTokens != 0) {
    fail(ErrorKind::bad_input, "argument --chunked-prefill-size: ", rows, ": expected -1 or a multiple of ",
         ops::kPageTokens, ", the tokens of a page");
  }
  return rows;
}

int64_t batched_tokens(const MemoryFlags& flags, int64_t max_model_len, int64_t fallback) {
  const int64_t chunk = chunk_rows(flags, max_model_len);
  const int64_t given = human("--max-num-batched-tokens", flags.max_num_batched_tokens, 0);
  if (chunk > 0 && given > 0 && chunk != given) {
    fail(ErrorKind::bad_input, "--max-num-batched-tokens ", flags.max_num_batched_tokens,
         " and --chunked-prefill-size ", flags.chunked_prefill_size,
         " name the same limit and differ: give one of them");
  }
  return chunk > 0 ? chunk : given > 0 ? given : fallback;
}

/// The flag, else the environment under either of the names that users know.
std::string partition_text_given(const MemoryFlags& flags) {
  if (!flags.pp_layer_partition.empty()) return flags.pp_layer_partition;
  const auto variable = [](const char* name) -> std::string {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  std::string vllm = variable("VLLM_PP_LAYER_PARTITION");
  const std::string sglang = variable("SGLANG_PP_LAYER_PARTITION");
  if (!vllm.empty() && !sglang.empty() && vllm != sglang) {
    fail(ErrorKind::bad_input, "VLLM_PP_LAYER_PARTITION=", vllm, " and SGLANG_PP_LAYER_PARTITION=", sglang,
         " differ: unset one of them");
  }
  return vllm.empty() ? sglang : vllm;
}

void set_parallel(const MemoryFlags& flags, PlanRequest& request) {
  const bool gpu = request.device.kind == DeviceKind::gpu;
  const bool sized = !flags.tensor_parallel_size.empty() || !flags.pipeline_parallel_size.empty();
  // Without any size every GPU that was named takes part.
  request.layout.tensor_parallel = parse_size("--tensor-parallel-size", flags.tensor_parallel_size,
                                              gpu && !sized ? request.device.count : 1);
  request.pipeline_parallel = parse_size("--pipeline-parallel-size", flags.pipeline_parallel_size, 1);
  request.layout.expert_parallel = flags.expert_parallel;
  request.layout.context_parallel =
      parse_size("--decode-context-parallel-size", flags.decode_context_parallel_size, 1);
  request.layout.stripe_index_keys = flags.stripe_index_keys;
  request.strict_boundaries = flags.strict_boundaries;
  if (const std::string text = partition_text_given(flags); !text.empty()) {
    request.partition = parse_partition(text);
  }
}

void add_parallel_flags(CLI::App& command, MemoryFlags& flags) {
  command.add_option("--tensor-parallel-size,--tp-size,--tp", flags.tensor_parallel_size,
                     "Devices that share each layer (1)");
  command.add_option("--pipeline-parallel-size,--pp-size,--pp", flags.pipeline_parallel_size,
                     "Stages that the layers are cut into (1)");
  command.add_option(
      "--pp-layer-partition", flags.pp_layer_partition,
      "Layers of each stage: 10,12,12; else VLLM_PP_LAYER_PARTITION or SGLANG_PP_LAYER_PARTITION; "
      "else balanced by weights and cache");
  command.add_flag("--pp-strict-index-boundaries", flags.strict_boundaries,
                   "Refuse a stage that begins on a layer without an indexer");
  command.add_flag("--enable-expert-parallel", flags.expert_parallel,
                   "Spread experts whole over the devices of a stage instead of slicing each");
  command.add_option("--decode-context-parallel-size,--dcp-size,--dcp", flags.decode_context_parallel_size,
                     "Devices that the cache's latent rows are striped over (1)");
  command.add_flag("--dcp-stripe-index-keys", flags.stripe_index_keys, "Stripe the index keys too");
}

}  // namespace

void add_memory_flags(CLI::App& command, MemoryFlags& flags) {
  command
      .add_option("--max-model-len,--context-length", flags.max_model_len,
                  "Tokens of prompt and answer together: 131072, 128K, 25.6k, or auto (-1): what fits")
      ->capture_default_str();
  command.add_option("--max-num-seqs,--max-running-requests", flags.max_num_seqs,
                     "Requests that run together (16 on the CPU)");
  command.add_option("--max-num-batched-tokens", flags.max_num_batched_tokens,
                     "Tokens of one step (2048 on the CPU)");
  command.add_option("--chunked-prefill-size", flags.chunked_prefill_size,
                     "The same in multiples of 64; -1: a prompt in one step");
  command.add_option("--gpu-memory-utilization", flags.gpu_memory_utilization,
                     "Share of the device's total memory for everything: weights, step and cache");
  command.add_option("--mem-fraction-static", flags.mem_fraction_static,
                     "Share of the device's free memory for weights and cache; a step takes the rest");
  command.add_option(
      "--kv-cache-memory-bytes", flags.kv_cache_memory_bytes,
      "Memory of the cache: 8G, 2.5g; wins over the shares. Without any of them on the CPU what the "
      "requests may need, at most 4 GiB");
  command.add_option("--max-total-tokens", flags.max_total_tokens, "At most so many tokens in the cache");
  command.add_option("--indexer-scratch-bytes", flags.indexer_scratch_bytes,
                     "What the indexer's scores of a step may take (64M on the CPU, 2G on a GPU)");
  command.add_option("--dtype", flags.dtype, "auto, bfloat16 or float32")->capture_default_str();
  command
      .add_option("--kv-cache-dtype", flags.kv_cache_dtype,
                  "auto, bfloat16, bf16, fp8, fp8_e4m3 or fp8_ds_mla")
      ->capture_default_str();
  add_parallel_flags(command, flags);
}

PlanRequest plan_request(const MemoryFlags& flags, const ModelConfig& config, const DeclaredForm& form,
                         const DeviceMemory& device, EngineOptions options, std::vector<std::string>& notes) {
  const BatchLimits limits = default_limits(device);
  options.dtype = parse_compute_dtype(flags.dtype);
  const KvCacheChoice cache =
      choose_kv_cache_dtype(flags.kv_cache_dtype, options.dtype, device, form.fp8_cache);
  options.kv_cache_dtype = cache.dtype;
  notes.push_back(cat("kv-cache-dtype ", kv_cache_dtype_name(cache.dtype), ": ", cache.reason));
  options.max_model_len = parse_human_integer_or_auto("--max-model-len", flags.max_model_len).value_or(0);
  options.max_num_seqs = human("--max-num-seqs", flags.max_num_seqs, limits.max_num_seqs);
  const int64_t longest = options.max_model_len > 0 ? options.max_model_len : config.max_position_embeddings;
  options.max_num_batched_tokens = batched_tokens(flags, longest, limits.max_num_batched_tokens);
  options.kv_cache_memory_bytes = human("--kv-cache-memory-bytes", flags.kv_cache_memory_bytes, 0);
  options.max_total_tokens = human("--max-total-tokens", flags.max_total_tokens, 0);
  options.indexer_scratch_bytes = human("--indexer-scratch-bytes", flags.indexer_scratch_bytes, 0);
  if (!flags.gpu_memory_utilization.empty()) {
    options.gpu_memory_utilization = parse_share("--gpu-memory-utilization", flags.gpu_memory_utilization);
  }
  if (!flags.mem_fraction_static.empty()) {
    options.mem_fraction_static = parse_share("--mem-fraction-static", flags.mem_fraction_static);
  }
  PlanRequest request;
  request.format = form.format;
  request.device = device;
  request.engine = options;
  set_parallel(flags, request);
  return request;
}

}  // namespace glint
