// Upper and lower case as the C library's C.UTF-8 knows it; one character becomes one, except that the sharp
// s becomes SS as in Python.
#include <clocale>
#include <cwctype>

#include "base/utf8.h"
#include "text/jinja/builtins.h"

namespace glint::jinja {

namespace {

/// Null if the system has no such locale: then ASCII alone has case.
locale_t utf8_locale() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

char32_t with_case(char32_t code, bool up) {
  if (code < 0x80 || utf8_locale() == nullptr) {
    if (up && code >= 'a' && code <= 'z') return code - 32;
    if (!up && code >= 'A' && code <= 'Z') return code + 32;
    return code;
  }
  const auto wide = static_cast<wint_t>(code);
  return static_cast<char32_t>(up ? towupper_l(wide, utf8_locale()) : towlower_l(wide, utf8_locale()));
}

bool has_case(char32_t code) {
  return with_case(code, true) != code || with_case(code, false) != code || code == 0xDF;
}

/// How a word's first character and the others are written.
enum class Style { upper, lower, capital, title };

std::string written(std::string_view text, Style style) {
  std::string out;
  out.reserve(text.size());
  bool first = true;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    at += step.bytes;
    const bool up = style == Style::upper || (first && style != Style::lower);
    if (up && step.code == 0xDF) {
      out += style == Style::upper ? "SS" : "Ss";
    } else {
      append_utf8(out, with_case(step.code, up));
    }
    first = style == Style::title && !has_case(step.code);
  }
  return out;
}

}  // namespace

std::string upper(std::string_view text) {
  return written(text, Style::upper);
}

std::string lower(std::string_view text) {
  return written(text, Style::lower);
}

std::string capitalized(std::string_view text) {
  return written(text, Style::capital);
}

std::string titled(std::string_view text) {
  return written(text, Style::title);
}

}  // namespace glint::jinja
