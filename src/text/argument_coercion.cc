#include "text/argument_coercion.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "text/python_json.h"
#include "text/python_text.h"

namespace glint {

namespace {

using Coerced = std::optional<std::string>;

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

std::string ascii_lower(std::string_view text) {
  std::string out(text);
  for (char& byte : out) {
    if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte - 'A' + 'a');
  }
  return out;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  append_json_escaped(out, text);
  return out += '"';
}

/// Takes digits with single underscores between them off the front and appends them, without underscores, to
/// `digits`. Returns how many there were; -1 for an underscore in the wrong place.
int take_digits(std::string_view& text, std::string& digits) {
  int count = 0;
  bool underscore = false;
  while (!text.empty() && (is_digit(text.front()) || text.front() == '_')) {
    if (text.front() == '_') {
      if (underscore || count == 0) return -1;
      underscore = true;
    } else {
      digits += text.front();
      underscore = false;
      ++count;
    }
    text.remove_prefix(1);
  }
  return underscore ? -1 : count;
}

bool take_sign(std::string_view& text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  return negative;
}

Coerced as_integer(std::string_view raw) {
  std::string_view text = python_strip(raw);
  const bool negative = take_sign(text);
  std::string digits;
  if (take_digits(text, digits) <= 0 || !text.empty()) return {};
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return negative && digits != "0" ? "-" + digits : digits;
}

/// A number in Python's float syntax, taken apart: value = 0.DIGITS * 10^exponent, digits without leading
/// zeros.
struct Decimal {
  bool negative = false;
  std::string digits;
  int64_t exponent = 0;
};

std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal out;
  out.negative = take_sign(text);
  std::string mantissa;
  const int whole = take_digits(text, mantissa);
  int fraction = 0;
  if (whole >= 0 && text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = take_digits(text, mantissa);
  }
  if (whole < 0 || fraction < 0 || whole + fraction == 0) return {};
  int64_t exponent = 0;
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    const bool negative = take_sign(text);
    std::string digits;
    if (take_digits(text, digits) <= 0) return {};
    // More than nine digits are far beyond every double; the clamp keeps the sum below in range.
    digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
    if (digits.size() > 9) digits = "999999999";
    std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (negative) exponent = -exponent;
  }
  if (!text.empty()) return {};
  const size_t zeros = std::min(mantissa.find_first_not_of('0'), mantissa.size());
  out.digits = mantissa.substr(zeros);
  out.exponent = exponent + whole - static_cast<int64_t>(zeros);
  return out;
}

/// The nearest double; nothing if it is not finite.
std::optional<double> to_double(const Decimal& decimal) {
  if (decimal.digits.empty() || decimal.exponent < -400) return decimal.negative ? -0.0 : 0.0;
  if (decimal.exponent > 400) return {};
  const std::string text = cat(decimal.negative ? "-0." : "0.", decimal.digits, "e", decimal.exponent);
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc::result_out_of_range) {
    return decimal.exponent > 0 ? std::nullopt : std::optional<double>(0.0);
  }
  return value;
}

bool is_json_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const auto skip_digits = [&text] {
    const size_t start = text.size();
    while (!text.empty() && is_digit(text.front())) text.remove_prefix(1);
    return start - text.size();
  };
  const bool zero = text.starts_with('0');
  const size_t whole = skip_digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (skip_digits() == 0) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    if (skip_digits() == 0) return false;
  }
  return text.empty();
}

std::string integral_text(double value) {
  if (value == 0) return "0";
  std::array<char, 330> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, 0).ptr;
  return {buffer.data(), end};
}

Coerced as_number(std::string_view raw) {
  constexpr size_t kExactDigits = 15;  // every decimal of so many digits survives a double
  const std::string_view text = python_strip(raw);
  const std::optional<Decimal> decimal = parse_decimal(text);
  if (!decimal) return {};
  const std::optional<double> value = to_double(*decimal);
  if (!value) return {};
  if (decimal->digits.size() > kExactDigits && is_json_number(text)) return std::string(text);
  return std::trunc(*value) == *value ? integral_text(*value) : python_float_repr(*value);
}

Coerced as_boolean(std::string_view raw) {
  const std::string word = ascii_lower(python_strip(raw));
  if (word == "true" || word == "1") return "true";
  if (word == "false" || word == "0") return "false";
  return {};
}

Coerced as_json(std::string_view text) {
  try {
    return python_dumps(parse_python_json(text, "argument"));
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::string coerce_argument(std::string_view text, JsonTypes types) {
  if ((types & kTypeNull) != 0 && ascii_lower(text) == "null") return "null";
  Coerced value;
  if ((types & kTypeInteger) != 0) value = as_integer(text);
  if (!value && (types & kTypeNumber) != 0) value = as_number(text);
  if (!value && (types & kTypeBoolean) != 0) value = as_boolean(text);
  if (!value && (types & (kTypeObject | kTypeArray)) != 0) value = as_json(text);
  if (!value && (types & kTypeString) != 0) return quoted(text);
  if (!value) value = as_json(text);
  return value ? *value : quoted(text);
}

}  // namespace glint
