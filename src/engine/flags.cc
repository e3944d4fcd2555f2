#include "engine/flags.h"

#include "base/error.h"

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

}  // namespace glint
