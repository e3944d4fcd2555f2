#include "engine/flags.h"

#include <array>

#include "base/error.h"
#include "engine/engine_options.h"

namespace glint {

namespace {

/// Names that other engines take.
void refuse_known_kv_cache_dtype(std::string_view name) {
  struct Refusal {
    std::string_view prefix;
    std::string_view why;
  };
  constexpr std::array<Refusal, 9> kRefusals = {
      {{"fp8_e5m2", "sparse attention has no such rows"},
       {"fp8_inc", "it is a format of another accelerator"},
       {"fp8_per_token_head", "the latent row has no heads to scale one by one"},
       {"int8_per_token_head", "the latent row has no heads to scale one by one"},
       {"int4_per_token_head", "the latent row has no heads to scale one by one"},
       {"turboquant_", "no sparse attention reads such rows"},
       {"nvfp4", "rows of four bits are not supported yet"},
       {"fp4_e2m1", "rows of four bits are not supported yet"},
       {"float16", "this model's values leave the range of float16"}}};
  for (const Refusal& refusal : kRefusals) {
    if (!name.starts_with(refusal.prefix)) continue;
    fail(ErrorKind::unsupported, "argument --kv-cache-dtype: ", name, ": ", refusal.why,
         "; choose fp8_e4m3 or bfloat16");
  }
}

}  // namespace

ops::ComputeDType parse_compute_dtype(std::string_view name) {
  if (name == "auto" || name == "bfloat16" || name == "bf16") return ops::ComputeDType::bfloat16;
  if (name == "float32" || name == "float") return ops::ComputeDType::float32;
  if (name == "float16" || name == "half") {
    fail(ErrorKind::unsupported, "argument --dtype: ", name,
         ": this model's values leave the range of float16; choose bfloat16");
  }
  fail(ErrorKind::bad_input, "argument --dtype: invalid choice: '", name,
       "' (choose from auto, bfloat16, float32)");
}

KvCacheDType parse_kv_cache_dtype(std::string_view name, ops::ComputeDType compute) {
  const bool exact = compute == ops::ComputeDType::float32;
  if (name == "auto") return default_kv_cache_dtype(compute);
  if (name == "float32") {
    if (exact) return KvCacheDType::float32;
    fail(ErrorKind::unsupported,
         "argument --kv-cache-dtype: float32: only with --dtype float32; choose auto, bfloat16 or fp8");
  }
  if (name == "bfloat16" || name == "bf16" || name == "fp8" || name == "fp8_e4m3" || name == "fp8_ds_mla") {
    if (exact) {
      fail(ErrorKind::unsupported, "argument --kv-cache-dtype: ", name,
           ": --dtype float32 is the reference and caches float32; choose auto, or --dtype bfloat16");
    }
    return name.front() == 'b' ? KvCacheDType::bfloat16 : KvCacheDType::fp8;
  }
  refuse_known_kv_cache_dtype(name);
  fail(ErrorKind::bad_input, "argument --kv-cache-dtype: invalid choice: '", name,
       "' (choose from auto, bfloat16, bf16, fp8, fp8_e4m3, fp8_ds_mla)");
}

KvCacheChoice choose_kv_cache_dtype(std::string_view name, ops::ComputeDType compute,
                                    const DeviceMemory& device, bool file_asks_fp8) {
  KvCacheChoice choice{parse_kv_cache_dtype(name, compute), "as asked"};
  if (name != "auto") return choice;
  if (device.kind == DeviceKind::cpu) {
    choice.reason = "auto on the CPU is the compute type";
  } else if (device.compute_capability == 120) {
    choice.dtype = KvCacheDType::bfloat16;
    choice.reason = "auto on compute capability 12.0, until FP8 decoding is measured faster there";
  } else {
    choice.dtype = KvCacheDType::fp8;
    choice.reason = device.compute_capability == 0
                        ? std::string("auto on a GPU that is not named")
                        : cat("auto on compute capability ", device.compute_capability / 10, ".0");
  }
  if (file_asks_fp8) choice.reason += "; the checkpoint's files declare FP8, which auto does not follow";
  return choice;
}

void check_quantization(std::string_view name, const DeclaredForm& form) {
  std::string_view stored = form.method;
  if (stored.empty()) {
    stored = form.format == CheckpointFormat::fp8     ? "fp8"
             : form.format == CheckpointFormat::nvfp4 ? "modelopt"
                                                      : "none, BF16";
  }
  if (name == stored || (name.starts_with("modelopt") && stored == "modelopt")) return;
  fail(ErrorKind::bad_input, "argument --quantization: Quantization method specified in the model config (",
       stored, ") does not match the quantization method specified in the `quantization` argument (", name,
       "): drop the flag; the checkpoint says how it is stored");
}

}  // namespace glint
