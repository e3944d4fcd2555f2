// Values of flags that several commands share.
#pragma once

#include <string_view>

#include "ops/types.h"

namespace glint {

/// "auto" and "bfloat16" (also "bf16") are bfloat16; "float32" (also "float") is float32. Throws bad_input
/// for other names, unsupported for float16, in which this model overflows.
ops::ComputeDType parse_compute_dtype(std::string_view name);

}  // namespace glint
