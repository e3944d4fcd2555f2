// Arithmetic of templates, with Python's types and rounding.
#include <cmath>

#include "text/jinja/builtins.h"

namespace glint::jinja {

namespace {

[[noreturn]] void no_operator(std::string_view op, const Value& a, const Value& b) {
  need_defined(a);
  need_defined(b);
  if (op == "+" && a.is(Kind::text)) raise("can only concatenate str (not \"", type_name(b), "\") to str");
  raise("unsupported operand type(s) for ", op, ": '", type_name(a), "' and '", type_name(b), "'");
}

[[noreturn]] void too_large() {
  raise("integers beyond 64 bits cannot be calculated with");
}

bool is_small(const Value& value) {
  return value.is(Kind::integer) || value.is(Kind::boolean);
}

Value power(int64_t base, int64_t exponent) {
  if (exponent < 0) return {std::pow(static_cast<double>(base), static_cast<double>(exponent))};
  int64_t out = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(out, base, &out)) too_large();
    if (out == 0 || out == 1) break;
    if (i > 64 && out == -1) return {exponent % 2 == 0 ? int64_t{1} : int64_t{-1}};
  }
  return {out};
}

int64_t floor_divided(int64_t a, int64_t b) {
  if (a == INT64_MIN && b == -1) too_large();
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value integers(std::string_view op, int64_t a, int64_t b) {
  int64_t out = 0;
  if (op == "+" && !__builtin_add_overflow(a, b, &out)) return {out};
  if (op == "-" && !__builtin_sub_overflow(a, b, &out)) return {out};
  if (op == "*" && !__builtin_mul_overflow(a, b, &out)) return {out};
  if (op == "**") return power(a, b);
  if (op == "/" || op == "//" || op == "%") {
    if (b == 0) raise("division by zero");
    if (op == "/") return {static_cast<double>(a) / static_cast<double>(b)};
    if (op == "//") return {floor_divided(a, b)};
    if (b == -1) return {int64_t{0}};
    return {a - floor_divided(a, b) * b};
  }
  too_large();
}

Value reals(std::string_view op, double a, double b) {
  double out = 0;
  if (op == "+") out = a + b;
  if (op == "-") out = a - b;
  if (op == "*") out = a * b;
  if (op == "**") out = std::pow(a, b);
  if (op == "/" || op == "//" || op == "%") {
    if (b == 0) raise("float division by zero");
    if (op == "/") out = a / b;
    if (op == "//") out = std::floor(a / b);
    if (op == "%") {
      out = std::fmod(a, b);
      if (out != 0 && (out < 0) != (b < 0)) out += b;
    }
  }
  if (!std::isfinite(out)) raise("the result of ", op, " is not finite");
  return {out};
}

Value joined(const Sequence& a, const Sequence& b) {
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  if (static_cast<int64_t>(items.size()) > kItemsMax) raise("the list is too long");
  return a.is_tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value repeated(const Value& value, int64_t count) {
  if (count < 0) count = 0;
  const int64_t length = value.is(Kind::text) ? static_cast<int64_t>(value.text().size()) : length_of(value);
  if (length > 0 && count > (value.is(Kind::text) ? kTextBytesMax : kItemsMax) / length) {
    raise("repeating it ", count, " times makes it too long");
  }
  if (value.is(Kind::text)) {
    std::string out;
    for (int64_t i = 0; i < count && length > 0; ++i) out += value.text();
    return {std::move(out)};
  }
  std::vector<Value> out;
  const Sequence& sequence = value.sequence();
  for (int64_t i = 0; i < count && length > 0; ++i)
    out.insert(out.end(), sequence.items.begin(), sequence.items.end());
  return sequence.is_tuple ? Value::tuple(std::move(out)) : Value::list(std::move(out));
}

Value concatenated(std::string a, const Value& b) {
  append_text(a, b);
  if (static_cast<int64_t>(a.size()) > kTextBytesMax) raise("the string is too long");
  return {std::move(a)};
}

}  // namespace

Value binary(std::string_view op, const Value& a, const Value& b) {
  if (op == "~") return concatenated(to_text(a), b);
  if (is_small(a) && is_small(b)) return integers(op, a.integer(""), b.integer(""));
  if (a.is(Kind::big_integer) || b.is(Kind::big_integer)) {
    if (a.is_number() && b.is_number()) too_large();
  }
  if (a.is_number() && b.is_number()) return reals(op, a.number(""), b.number(""));
  if (op == "+" && a.is(Kind::text) && b.is(Kind::text)) return concatenated(a.text(), b);
  if (op == "+" && a.is(Kind::sequence) && b.is(Kind::sequence) &&
      a.sequence().is_tuple == b.sequence().is_tuple) {
    return joined(a.sequence(), b.sequence());
  }
  if (op == "*" && (a.is(Kind::text) || a.is(Kind::sequence)) && is_small(b))
    return repeated(a, b.integer(""));
  if (op == "*" && (b.is(Kind::text) || b.is(Kind::sequence)) && is_small(a))
    return repeated(b, a.integer(""));
  if (op == "%" && a.is(Kind::text)) return {formatted(a.text(), b)};
  no_operator(op, a, b);
}

Value negated(const Value& value) {
  if (value.is(Kind::real)) return {-value.real()};
  if (value.is(Kind::big_integer)) {
    const std::string& digits = value.big_integer().digits;
    return {BigInteger{digits.starts_with('-') ? digits.substr(1) : "-" + digits}};
  }
  const int64_t number = value.integer("the operand of -");
  if (number == INT64_MIN) too_large();
  return {-number};
}

}  // namespace glint::jinja
