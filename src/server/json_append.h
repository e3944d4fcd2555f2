// Compact JSON written straight into a text: what a stream sends token by token is not built as a tree.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/python_json.h"

namespace glint {

inline void append_json_number(std::string& out, int64_t value) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

/// With its quotes.
inline void append_json_text(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

}  // namespace glint
