#include "engine/flags.h"

#include "base/error.h"
#include "engine/cpu_device.h"

namespace glint {

ops::ComputeDType parse_compute_dtype(std::string_view name) {
  if (name == "auto" || name == "bfloat16" || name == "bf16") return ops::ComputeDType::bfloat16;
  if (name == "float32" || name == "float") return ops::ComputeDType::float32;
  if (name == "float16" || name == "half") {
    fail(ErrorKind::unsupported, "--dtype ", name,
         ": this model's values leave the range of float16; choose bfloat16");
  }
  fail(ErrorKind::bad_input, "--dtype ", name, ": choose auto, bfloat16 or float32");
}

KvCacheDType parse_kv_cache_dtype(std::string_view name, ops::ComputeDType compute) {
  const bool exact = compute == ops::ComputeDType::float32;
  if (name == "auto") return default_kv_cache_dtype(compute);
  if (name == "float32") {
    if (exact) return KvCacheDType::float32;
    fail(ErrorKind::unsupported,
         "--kv-cache-dtype float32: only with --dtype float32; choose auto, bfloat16 or fp8");
  }
  if (name == "bfloat16" || name == "bf16" || name == "fp8" || name == "fp8_e4m3" || name == "fp8_ds_mla") {
    if (exact) {
      fail(ErrorKind::unsupported, "--kv-cache-dtype ", name,
           ": --dtype float32 is the reference and caches float32; choose auto, or --dtype bfloat16");
    }
    return name.front() == 'b' ? KvCacheDType::bfloat16 : KvCacheDType::fp8;
  }
  if (name == "fp8_e5m2") {
    fail(ErrorKind::unsupported,
         "--kv-cache-dtype fp8_e5m2: sparse attention has no such rows; choose fp8_e4m3");
  }
  fail(ErrorKind::bad_input, "--kv-cache-dtype: invalid choice: '", name,
       "' (choose from auto, bfloat16, bf16, fp8, fp8_e4m3, fp8_ds_mla)");
}

}  // namespace glint
