#include "text/jinja/literals.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "text/python_text.h"

namespace glint::jinja {

namespace {

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

bool is_hex_digit(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

/// Digits and single underscores between them, from `at` on.
template <class IsDigit>
size_t digits_end(std::string_view text, size_t at, IsDigit is_one) {
  while (at < text.size() &&
         (is_one(text[at]) || (text[at] == '_' && at + 1 < text.size() && is_one(text[at + 1])))) {
    ++at;
  }
  return at;
}

std::string without_underscores(std::string_view text) {
  std::string out(text);
  std::erase(out, '_');
  return out;
}

/// Decimal digits, perhaps with a sign, as an integer of any size.
Value decimal(const std::string& text) {
  int64_t number = 0;
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto result = std::from_chars(begin, text.data() + text.size(), number);
  if (result.ec == std::errc()) return {number};
  const bool negative = text.starts_with('-');
  const size_t first = std::min(text.find_first_not_of("+-0"), text.size() - 1);
  return {BigInteger{cat(negative ? "-" : "", text.substr(first))}};
}

int base_of(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return 10;
  switch (text[1]) {
    case 'x':
    case 'X':
      return 16;
    case 'o':
    case 'O':
      return 8;
    case 'b':
    case 'B':
      return 2;
    default:
      return 10;
  }
}

/// Reads up to `count` digits of `base` at text[at].
size_t read_code(std::string_view text, size_t at, size_t count, int base, char32_t& code) {
  const size_t end = std::min(text.size(), at + count);
  uint32_t number = 0;
  const auto result = std::from_chars(text.data() + at, text.data() + end, number, base);
  code = number;
  return static_cast<size_t>(result.ptr - text.data());
}

char simple_escape(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return letter;
    default:
      return '\0';
  }
}

/// Resolves the escape whose letter stands at text[at]; returns the place behind it.
size_t append_escape(std::string& out, std::string_view text, size_t at) {
  const char letter = text[at];
  if (letter == '\n') return at + 1;
  if (const char simple = simple_escape(letter); simple != '\0') {
    out += simple;
    return at + 1;
  }
  char32_t code = 0;
  if (letter >= '0' && letter <= '7') {
    const size_t end = read_code(text, at, 3, 8, code);
    append_utf8(out, code);
    return end;
  }
  const size_t count = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
  if (count > 0 && at + 1 < text.size()) {
    const size_t end = read_code(text, at + 1, count, 16, code);
    if (end == at + 1 + count) {
      append_utf8(out, code);
      return end;
    }
  }
  out += '\\';
  out += letter;
  return at + 1;
}

}  // namespace

NumberEnd number_end(std::string_view text, size_t at, bool may_be_real) {
  const int base = base_of(text.substr(at));
  if (base != 10) return {digits_end(text, at + 2, base == 16 ? is_hex_digit : is_digit), false};
  size_t end = digits_end(text, at, is_digit);
  if (!may_be_real) return {end, false};
  bool is_real = false;
  if (end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1])) {
    end = digits_end(text, end + 1, is_digit);
    is_real = true;
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    size_t digits = end + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    if (digits < text.size() && is_digit(text[digits])) return {digits_end(text, digits, is_digit), true};
  }
  return {end, is_real};
}

Value integer_literal(std::string_view text) {
  const std::string digits = without_underscores(text);
  const int base = base_of(digits);
  if (base == 10) return decimal(digits);
  int64_t number = 0;
  const auto result = std::from_chars(digits.data() + 2, digits.data() + digits.size(), number, base);
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) {
    raise("'", text, "' is no integer of 64 bits");
  }
  return {number};
}

Value real_literal(std::string_view text) {
  return {std::strtod(without_underscores(text).c_str(), nullptr)};
}

std::string unescaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '\\' || at + 1 >= text.size()) {
      out += text[at++];
    } else {
      at = append_escape(out, text, at + 1);
    }
  }
  return out;
}

Value parse_integer(std::string_view text) {
  text = python_strip(text);
  const size_t sign = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
  if (sign >= text.size() || !is_digit(text[sign]) || digits_end(text, sign, is_digit) != text.size())
    return {};
  return decimal(without_underscores(text));
}

Value parse_real(std::string_view text) {
  text = python_strip(text);
  const std::string digits = without_underscores(text);
  if (digits.empty() || digits.find_first_of("xXpPnN") != std::string::npos) return {};
  char* end = nullptr;
  const double number = std::strtod(digits.c_str(), &end);
  if (end != digits.c_str() + digits.size() || !std::isfinite(number)) return {};
  return {number};
}

}  // namespace glint::jinja
