#include "ops/cpu/kernels.h"

#include "ops/cpu/kernels_isa.h"

namespace glint::ops::cpu {

const Kernels& kernels(Isa isa) {
  switch (isa) {
    case Isa::portable:
    case Isa::avx2:
    case Isa::avx512:
    case Isa::avx512_bf16: break;
  }
  return portable_kernels();
}

}  // namespace glint::ops::cpu
