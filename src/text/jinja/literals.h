// Numbers and strings as templates write them.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace glint::jinja {

struct NumberEnd {
  size_t at = 0;
  bool is_real = false;
};

/// Where the number that starts at text[at] (a digit) ends; `may_be_real`: a fraction or an exponent may
/// follow.
NumberEnd number_end(std::string_view text, size_t at, bool may_be_real);

/// The value of a literal as number_end cut it: decimal, 0x, 0o, 0b, `_` between digits.
Value integer_literal(std::string_view text);
Value real_literal(std::string_view text);

/// A string's inside with Python's escapes resolved; an unknown one stays as it is.
std::string unescaped(std::string_view text);

/// int(text): a sign, digits, `_`, white space around; undefined if it is none.
Value parse_integer(std::string_view text);
/// float(text); undefined if it is none.
Value parse_real(std::string_view text);

}  // namespace glint::jinja
