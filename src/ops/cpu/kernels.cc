#include "ops/cpu/kernels.h"

#include "ops/cpu/kernels_isa.h"

namespace glint::ops::cpu {

const Kernels& kernels(Isa isa) {
  switch (isa) {
#ifdef GLINT_X86_64
    case Isa::avx512_bf16:
      return avx512_bf16_kernels();
    case Isa::avx512:
      return avx512_kernels();
    case Isa::avx2:
      return avx2_kernels();
#endif
    default:
      return portable_kernels();
  }
}

}  // namespace glint::ops::cpu
