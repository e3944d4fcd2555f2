// The tables behind codec(), each in its own file.
#pragma once

#include "quantize/codec.h"

namespace glint::quantize {

const Codec& portable_codec();
#ifdef GLINT_X86_64
const Codec& avx2_codec();
const Codec& avx512_codec();
#endif

}  // namespace glint::quantize
