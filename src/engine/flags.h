// Values of flags that several commands share.
#pragma once

#include <string_view>

#include "cache/paged_cache.h"
#include "ops/types.h"

namespace glint {

/// "auto" and "bfloat16" (also "bf16") are bfloat16; "float32" (also "float") is float32. Throws bad_input
/// for other names, unsupported for float16, in which this model overflows.
ops::ComputeDType parse_compute_dtype(std::string_view name);

/// --kv-cache-dtype on the CPU: auto is default_kv_cache_dtype; bfloat16, bf16; fp8, fp8_e4m3, fp8_ds_mla
/// (all three the same rows); float32 for --dtype float32 alone. Throws bad_input or unsupported with the
/// reason for every other name.
KvCacheDType parse_kv_cache_dtype(std::string_view name, ops::ComputeDType compute);

}  // namespace glint
