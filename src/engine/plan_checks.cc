#include "engine/plan_checks.h"

#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/threads.h"
#include "cache/disk_tier.h"
#include "engine/engine.h"
#include "ops/cpu/cpu_ops.h"

namespace glint {

namespace {

void check_disk_options(const EngineOptions& options, const ModelConfig& config) {
  if (options.kv_disk_dir.empty() && options.kv_disk_bytes == 0) return;
  if (options.kv_disk_dir.empty() || options.kv_disk_bytes == 0) {
    fail(ErrorKind::bad_input,
         "argument --kv-disk-dir: --kv-disk-dir and --kv-disk-bytes go together: give both or neither");
  }
  if (!options.prefix_caching) {
    fail(ErrorKind::bad_input,
         "argument --kv-disk-dir: --kv-disk-dir keeps pages of the prefix cache: drop it or ",
         "--no-enable-prefix-caching");
  }
  const PageFileFormat format{
      cache_layout(cached_config(config, options.num_speculative_tokens != 0),
                   options.kv_cache_dtype.value_or(default_kv_cache_dtype(options.dtype)))
          .page_bytes,
      {}};
  if (options.kv_disk_bytes < format.file_bytes()) {
    fail(ErrorKind::bad_input, "argument --kv-disk-bytes: ", options.kv_disk_bytes,
         ": one page of 64 tokens takes ", format.file_bytes());
  }
}

}  // namespace

void check_engine_options(const EngineOptions& options, const ModelConfig& config) {
  check_disk_options(options, config);
  if (options.max_num_seqs < 1) {
    fail(ErrorKind::bad_input, "argument --max-num-seqs: ", options.max_num_seqs, ": expected at least 1");
  }
  if (options.max_num_batched_tokens < options.max_num_seqs) {
    fail(ErrorKind::bad_input, "max_num_batched_tokens (", options.max_num_batched_tokens,
         ") must be greater than or equal to max_num_seqs (", options.max_num_seqs,
         "): raise --max-num-batched-tokens or lower --max-num-seqs");
  }
  if (options.num_speculative_tokens < kSpeculativeTokensAuto ||
      options.num_speculative_tokens > kSpeculativeTokensMax) {
    fail(ErrorKind::bad_input,
         "argument --speculative-config.num_speculative_tokens: ", options.num_speculative_tokens,
         ": expected 1 to ", kSpeculativeTokensMax, ", or auto");
  }
  if (options.num_speculative_tokens != 0 && !config.has_mtp()) {
    fail(ErrorKind::bad_input,
         "argument --speculative-config: this checkpoint has no MTP layer (num_nextn_predict_layers is 0)");
  }
  const int64_t rows = options.max_num_seqs * (1 + drafts_max(options));
  if (options.max_num_batched_tokens < rows) {
    fail(ErrorKind::bad_input, "max_num_batched_tokens (", options.max_num_batched_tokens,
         ") must be at least max_num_seqs times one more than num_speculative_tokens (", rows,
         "): raise --max-num-batched-tokens or lower --max-num-seqs");
  }
  if (options.max_model_len != 0 && options.max_model_len < 2) {
    fail(ErrorKind::bad_input, "argument --max-model-len: ", options.max_model_len, ": expected at least 2");
  }
  if (options.max_model_len > config.max_position_embeddings && !options.allow_long_model_len) {
    fail(ErrorKind::bad_input, "User-specified max_model_len (", options.max_model_len,
         ") is greater than the derived max_model_len (max_position_embeddings=",
         config.max_position_embeddings,
         " in config.json): lower --max-model-len, or set VLLM_ALLOW_LONG_MAX_MODEL_LEN=1, which gives "
         "answers that the model was not trained for");
  }
}

void check_budget_flags(const EngineOptions& options) {
  if (options.gpu_memory_utilization && options.mem_fraction_static) {
    fail(ErrorKind::bad_input,
         "argument --gpu-memory-utilization: --gpu-memory-utilization and --mem-fraction-static: give one of "
         "them; the first is a share of all "
         "memory for "
         "everything, the second of free memory for weights and cache");
  }
  if (const auto share = options.gpu_memory_utilization; share && !(*share > 0 && *share <= 1)) {
    fail(ErrorKind::bad_input, "argument --gpu-memory-utilization: ", *share,
         ": expected a number above 0 and at most 1");
  }
  if (const auto share = options.mem_fraction_static; share && !(*share > 0 && *share < 1)) {
    fail(ErrorKind::bad_input, "argument --mem-fraction-static: ", *share,
         ": expected a number above 0 and below 1");
  }
  if (options.max_total_tokens != 0 && options.max_total_tokens < ops::kPageTokens) {
    fail(ErrorKind::bad_input, "argument --max-total-tokens: ", options.max_total_tokens,
         ": expected at least ", ops::kPageTokens, ", one page");
  }
}

void check_free_memory(const EngineOptions& options, const DeviceMemory& device) {
  if (!options.gpu_memory_utilization || options.kv_cache_memory_bytes > 0) return;
  const double wanted = *options.gpu_memory_utilization * static_cast<double>(device.total_bytes);
  if (static_cast<double>(device.free_bytes) >= wanted) return;
  fail(ErrorKind::bad_input, "Free memory on device (", gib_text(device.free_bytes), "/",
       gib_text(device.total_bytes), " GiB) on startup is less than desired GPU memory utilization (",
       *options.gpu_memory_utilization, ", ", gib_text(static_cast<int64_t>(wanted)),
       " GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.");
}

void check_indexer_budget(const ModelConfig& config, const PlanRequest& request, int64_t context) {
  const int64_t budget = request.engine.indexer_scratch_bytes;
  if (budget == 0) return;
  const bool cpu = request.device.kind == DeviceKind::cpu;
  const int threads = request.engine.threads > 0 ? request.engine.threads : usable_cpus();
  const int64_t least =
      cpu ? ops::cpu::indexer_scratch_bytes_min(context, config.index_n_heads, config.index_head_dim, threads)
          : (context + ops::kPageTokens - 1) / ops::kPageTokens * ops::kPageTokens * 4;
  if (budget >= least) return;
  fail(ErrorKind::bad_input, "argument --indexer-scratch-bytes: ", budget,
       ": the scores of one row at a context of ", context, " take ", least,
       ": raise it or lower --max-model-len");
}

std::string budget_source(const EngineOptions& options) {
  if (options.kv_cache_memory_bytes > 0)
    return cat("--kv-cache-memory-bytes ", options.kv_cache_memory_bytes);
  if (options.gpu_memory_utilization)
    return cat("--gpu-memory-utilization ", *options.gpu_memory_utilization);
  if (options.mem_fraction_static) return cat("--mem-fraction-static ", *options.mem_fraction_static);
  return "the device's memory";
}

std::string budget_advice(const PlanRequest& request) {
  const EngineOptions& options = request.engine;
  std::string advice = "lower --max-model-len or raise ";
  if (options.kv_cache_memory_bytes > 0 || request.device.kind == DeviceKind::cpu) {
    advice += "--kv-cache-memory-bytes";
  } else if (options.gpu_memory_utilization) {
    advice += "--gpu-memory-utilization";
  } else if (!options.mem_fraction_static) {
    advice += "--decode-context-parallel-size, which stripes the cache over --tensor-parallel-size";
  } else {
    return "lower --max-model-len. Not enough memory. Please try to increase --mem-fraction-static.";
  }
  return advice;
}

std::string gib_text(int64_t bytes) {
  // Enough digits that a small model's numbers are not all 0.00.
  const int digits = bytes < (int64_t{1} << 27) ? 6 : 2;
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.*f", digits, static_cast<double>(bytes) / 0x1p30);
  return text.data();
}

}  // namespace glint
