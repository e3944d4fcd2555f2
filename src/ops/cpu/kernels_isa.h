// The tables behind kernels(), each in its own file.
#pragma once

#include "ops/cpu/kernels.h"

namespace glint::ops::cpu {

const Kernels& portable_kernels();

}  // namespace glint::ops::cpu
