#include "base/error.h"
#include "base/json.h"
#include "tensor/safetensors.h"

namespace glint {

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (const int64_t dimension : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(dimension);
  return text + "]";
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(count, dimension, &count) || count > (int64_t{1} << 62)) {
      fail(ErrorKind::bad_input, "shape ", shape_text(shape), " is negative or too large");
    }
  }
  return count;
}

std::string json_quoted(std::string_view text) {
  try {
    return Json(text).dump(-1, ' ', true);
  } catch (const Json::type_error&) {
    fail(ErrorKind::bad_input,
         "a name is not valid UTF-8: ", Json(text).dump(-1, ' ', true, Json::error_handler_t::replace));
  }
}

int64_t TensorSpec::bytes() const {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(element_count(shape), dtype_bytes(dtype), &bytes)) {
    fail(ErrorKind::bad_input, "tensor ", json_quoted(name), ": shape ", shape_text(shape), " is too large");
  }
  return bytes;
}

}  // namespace glint
