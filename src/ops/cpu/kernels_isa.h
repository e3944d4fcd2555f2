// The tables behind kernels(), each in its own file.
#pragma once

#include "ops/cpu/kernels.h"

namespace glint::ops::cpu {

const Kernels& portable_kernels();
#ifdef GLINT_X86_64
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& avx512_bf16_kernels();
#endif

}  // namespace glint::ops::cpu
