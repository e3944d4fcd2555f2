// The flags that decide what an engine's memory holds, shared by `glint serve` and `glint plan`.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "checkpoint/quantization_config.h"
#include "engine/device_memory.h"
#include "engine/memory_plan.h"

namespace glint {

/// As given; empty: not given.
struct MemoryFlags {
  std::string max_model_len = "auto";
  std::string max_num_seqs;
  std::string max_num_batched_tokens;
  std::string chunked_prefill_size;
  std::string kv_cache_memory_bytes;
  std::string gpu_memory_utilization;
  std::string mem_fraction_static;
  std::string max_total_tokens;
  std::string indexer_scratch_bytes;
  std::string dtype = "auto";
  std::string kv_cache_dtype = "auto";
  std::string tensor_parallel_size;
  std::string pipeline_parallel_size;
  std::string decode_context_parallel_size;
  std::string pp_layer_partition;
  bool strict_boundaries = false;
  bool expert_parallel = false;
  bool stripe_index_keys = false;
};

void add_memory_flags(CLI::App& command, MemoryFlags& flags);

/// Puts the flags into `options` (what they say about dtype, lengths and memory) for `device`, and makes the
/// request. `model` is a folder with a config.json, or that file. `format` overrules what the files say, if
/// not empty. Adds a line to `notes` for what was decided. Throws bad_input or unsupported, one line that
/// names the flag.
PlanRequest plan_request(const MemoryFlags& flags, const ModelConfig& config, const DeclaredForm& form,
                         const DeviceMemory& device, EngineOptions options, std::vector<std::string>& notes);

}  // namespace glint
