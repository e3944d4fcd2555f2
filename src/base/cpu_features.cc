#include "base/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/error.h"

namespace glint {

#if defined(__x86_64__)
namespace {

/// clang 14 has no name for this one.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace
#endif

Isa best_isa() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vbmi");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) return Isa::avx512_bf16;
  if (avx512) return Isa::avx512;
  if (avx2) return Isa::avx2;
#endif
  return Isa::portable;
}

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return "portable";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_bf16:
      return "avx512_bf16";
  }
  return "?";
}

Isa parse_isa(std::string_view name) {
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    if (name != isa_name(isa)) continue;
    if (isa > best_isa())
      fail(ErrorKind::unsupported, "isa ", name, ": this machine has only ", isa_name(best_isa()));
    return isa;
  }
  fail(ErrorKind::bad_input, "isa ", name, ": choose portable, avx2, avx512 or avx512_bf16");
}

}  // namespace glint
