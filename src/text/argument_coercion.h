// The typed form of an argument value that the model wrote as plain text ("Argument values" of the text
// layer).
#pragma once

#include <string>
#include <string_view>

#include "text/tool_schema.h"

namespace glint {

/// The value as JSON text. Tried in this order, each only if `types` has it: null (the word, any case),
/// integer (Python's int syntax: blanks around, a sign, `_` between digits; every digit is kept), number
/// (Python's float syntax, finite; integral values print as integers; a valid JSON number of more than 15
/// digits is kept as written), boolean (true, 1, false, 0; any case, trimmed), object and array (any JSON
/// text, finite numbers only), string (the text as it is). If nothing fits: the text as JSON if it is JSON,
/// else as a string.
std::string coerce_argument(std::string_view text, JsonTypes types);

/// True if no text can become anything but a string, so that it may be sent before its end is known.
inline bool is_always_string(JsonTypes types) {
  return types == kTypeString;
}

}  // namespace glint
