// Values of flags that several commands share.
#pragma once

#include <string>
#include <string_view>

#include "cache/paged_cache.h"
#include "checkpoint/quantization_config.h"
#include "engine/device_memory.h"
#include "ops/types.h"

namespace glint {

/// "auto" and "bfloat16" (also "bf16") are bfloat16; "float32" (also "float") is float32. Throws bad_input
/// for other names, unsupported for float16, in which this model overflows.
ops::ComputeDType parse_compute_dtype(std::string_view name);

/// --kv-cache-dtype on the CPU: auto is default_kv_cache_dtype; bfloat16, bf16; fp8, fp8_e4m3, fp8_ds_mla
/// (all three the same rows); float32 for --dtype float32 alone. Throws bad_input or unsupported with the
/// reason for every other name.
KvCacheDType parse_kv_cache_dtype(std::string_view name, ops::ComputeDType compute);

struct KvCacheChoice {
  KvCacheDType dtype = KvCacheDType::bfloat16;
  std::string reason;  // one line for the log
};

/// --kv-cache-dtype for a device: every name but auto as parse_kv_cache_dtype. auto is default_kv_cache_dtype
/// on the CPU; fp8_e4m3 on compute capability 9.0 and 10.0 (and where it is not known), bfloat16 on 12.0.
/// `file_asks_fp8`: the checkpoint's files declare an FP8 cache, which the reason mentions and nothing
/// follows.
KvCacheChoice choose_kv_cache_dtype(std::string_view name, ops::ComputeDType compute,
                                    const DeviceMemory& device, bool file_asks_fp8);

/// --quantization must agree with what the checkpoint's files declare: fp8; modelopt and its dialects; or
/// compressed-tensors. Throws bad_input in vLLM's words.
void check_quantization(std::string_view name, const DeclaredForm& form);

}  // namespace glint
