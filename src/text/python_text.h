// The few text rules of Python that prompts and tool arguments depend on.
#pragma once

#include <cstddef>
#include <string_view>

namespace glint {

/// Python's str.isspace for one code point: the White_Space characters plus U+001C..U+001F.
bool is_python_space(char32_t code);

/// str.strip, str.lstrip, str.rstrip without arguments, on UTF-8.
std::string_view python_strip(std::string_view text);
std::string_view python_lstrip(std::string_view text);
std::string_view python_rstrip(std::string_view text);

/// True if nothing but white space is in `text` (true for the empty text).
bool is_blank(std::string_view text);

}  // namespace glint
