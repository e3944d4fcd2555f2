// A template's text as tokens: plain text, and what stands inside of the tags.
//
// White space is handled as Hugging Face's environment does (trim_blocks and lstrip_blocks on, the template's
// one newline at the end dropped; `-` and `+` beside a delimiter override).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace glint::jinja {

/// Line and column, both from 1; columns count bytes.
struct Place {
  int line = 1;
  int column = 1;
};

enum class TokenKind {
  text,
  block_begin,
  block_end,
  print_begin,
  print_end,
  name,
  string,
  integer,
  real,
  op,
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string value;  // a string without quotes and escapes; an operator or a number as it is written
  Place place;
};

/// Throws bad_input "`what`:line:column: ..." for what is no template: an open tag, comment or string, or a
/// character that means nothing. The last token is `end`.
std::vector<Token> tokenize(std::string_view source, std::string_view what);

/// Throws that error.
[[noreturn]] void syntax_error(std::string_view what, Place place, const std::string& message);

}  // namespace glint::jinja
