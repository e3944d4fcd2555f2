// What a conversion is asked to do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_features.h"

namespace glint::quantize {

/// What the checkpoint becomes. Everything that a line does not name stays BF16 (norms, embedding, router and
/// lm_head in all of them).
enum class Target {
  nvfp4_experts,      // routed experts of the decoder layers in NVFP4: ModelOpt's layout
  nvfp4_experts_fp8,  // the same, and all other projections in FP8 blocks
  fp8_block,          // every projection in FP8 blocks of 128x128: the published FP8 form
  bf16,               // nothing quantised: what is stored in FP8 or NVFP4 is decoded
};

/// How weight_scale_2 is rounded.
enum class GlobalScale {
  exact,       // float32(amax / 2688)
  torch_cuda,  // float32(amax * float32(1 / 2688)), as PyTorch divides on a GPU
};

enum class ScaleSearch {
  max,  // the block's maximum becomes 6
  mse,  // of the neighbouring scales the one with the smallest squared error
};

enum class KvCacheHint { fp8, none };

/// "nvfp4-experts", "nvfp4-experts+fp8", "fp8-block", "bf16"; "exact", "torch-cuda"; "max", "mse"; "fp8",
/// "none". The parsers throw bad_input naming the flag and the choices.
std::string_view target_name(Target target);
std::string_view global_scale_name(GlobalScale mode);
std::string_view scale_search_name(ScaleSearch search);
std::string_view kv_cache_hint_name(KvCacheHint hint);
Target parse_target(std::string_view text);
GlobalScale parse_global_scale(std::string_view text);
ScaleSearch parse_scale_search(std::string_view text);
KvCacheHint parse_kv_cache_hint(std::string_view text);

/// Layer-aligned shards of 3 GB: 163 for the published config.
inline constexpr int64_t kOutputShardBytes = 3'000'000'000;
/// Gate or up projections that wait for their partner, all together; partners further apart are read again.
inline constexpr int64_t kHoldBytes = 512'000'000;

struct QuantizeOptions {
  std::filesystem::path source;
  std::filesystem::path out;
  Target target = Target::nvfp4_experts;
  GlobalScale global_scale = GlobalScale::exact;
  ScaleSearch scale_search = ScaleSearch::max;
  KvCacheHint kv_cache_hint = KvCacheHint::fp8;
  std::vector<std::string> exclude;  // patterns of modules (shell wildcards) that stay BF16
  std::string source_revision;       // recorded in the manifest; found in the source if empty
  int64_t shard_bytes = kOutputShardBytes;
  int64_t hold_bytes = kHoldBytes;
  int workers = 0;  // 0: one per CPU; never more than the source has shards
  bool resume = false;
  Isa isa = best_isa();
};

}  // namespace glint::quantize
