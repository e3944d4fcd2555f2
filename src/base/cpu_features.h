// The instruction sets that the CPU operations choose from at run time.
#pragma once

#include <string_view>

namespace glint {

enum class Isa { portable, avx2, avx512, avx512_bf16 };

/// The best set that this machine has (AVX2 here means AVX2, FMA and F16C; AVX-512 means F, BW, VL, DQ and
/// VBMI).
Isa best_isa();

/// "portable", "avx2", "avx512" or "avx512_bf16".
std::string_view isa_name(Isa isa);

/// The inverse of isa_name. Throws bad_input for an unknown name and unsupported for a set that this machine
/// lacks.
Isa parse_isa(std::string_view name);

}  // namespace glint
