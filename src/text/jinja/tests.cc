// `value is NAME`.
#include <algorithm>

#include "text/jinja/builtins.h"

namespace glint::jinja {

namespace {

using Test = bool (*)(const Value&, const Arguments&);

const Value& operand(const Arguments& arguments) {
  if (arguments.positional.size() != 1) raise("the test takes one operand");
  return arguments.positional[0];
}

bool is_iterable(const Value& value) {
  return value.is(Kind::undefined) || value.is(Kind::text) || value.is(Kind::sequence) ||
         value.is(Kind::dict);
}

bool is_lower(const Value& value) {
  const std::string text = to_text(value);
  return text == lower(text) && text != upper(text);
}

bool is_upper(const Value& value) {
  const std::string text = to_text(value);
  return text == upper(text) && text != lower(text);
}

Value remainder(const Value& value, const Value& divisor) {
  return binary("%", value, divisor);
}

bool is_same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is(Kind::sequence)) return &a.sequence() == &b.sequence();
  if (a.is(Kind::dict)) return &a.dict() == &b.dict();
  return equal(a, b);
}

const std::vector<std::pair<std::string_view, Test>>& tests() {
  static const Test equals = [](const Value& v, const Arguments& a) { return equal(v, operand(a)); };
  static const Test differs = [](const Value& v, const Arguments& a) { return !equal(v, operand(a)); };
  static const Test lesser = [](const Value& v, const Arguments& a) { return less(v, operand(a)); };
  static const Test lesser_or_equal = [](const Value& v, const Arguments& a) { return !less(operand(a), v); };
  static const Test greater = [](const Value& v, const Arguments& a) { return less(operand(a), v); };
  static const Test greater_or_equal = [](const Value& v, const Arguments& a) {
    return !less(v, operand(a));
  };
  static const std::vector<std::pair<std::string_view, Test>> table = {
      {"boolean", [](const Value& v, const Arguments&) { return v.is(Kind::boolean); }},
      {"callable", [](const Value& v, const Arguments&) { return v.is(Kind::function); }},
      {"defined", [](const Value& v, const Arguments&) { return !v.is(Kind::undefined); }},
      {"divisibleby",
       [](const Value& v, const Arguments& a) { return equal(remainder(v, operand(a)), Value(int64_t{0})); }},
      {"eq", equals},
      {"equalto", equals},
      {"even", [](const Value& v,
                  const Arguments&) { return equal(remainder(v, Value(int64_t{2})), Value(int64_t{0})); }},
      {"false", [](const Value& v, const Arguments&) { return v.is(Kind::boolean) && !v.boolean(); }},
      {"float", [](const Value& v, const Arguments&) { return v.is(Kind::real); }},
      {"ge", greater_or_equal},
      {"greaterthan", greater},
      {"gt", greater},
      {"in", [](const Value& v, const Arguments& a) { return contains(operand(a), v); }},
      {"integer",
       [](const Value& v, const Arguments&) { return v.is(Kind::integer) || v.is(Kind::big_integer); }},
      {"iterable", [](const Value& v, const Arguments&) { return is_iterable(v); }},
      {"le", lesser_or_equal},
      {"lessthan", lesser},
      {"lower", [](const Value& v, const Arguments&) { return is_lower(v); }},
      {"lt", lesser},
      {"mapping", [](const Value& v, const Arguments&) { return v.is(Kind::dict); }},
      {"ne", differs},
      {"none", [](const Value& v, const Arguments&) { return v.is(Kind::none); }},
      {"number", [](const Value& v, const Arguments&) { return v.is_number(); }},
      {"odd", [](const Value& v,
                 const Arguments&) { return equal(remainder(v, Value(int64_t{2})), Value(int64_t{1})); }},
      {"sameas", [](const Value& v, const Arguments& a) { return is_same(v, operand(a)); }},
      {"sequence", [](const Value& v, const Arguments&) { return is_iterable(v); }},
      {"string", [](const Value& v, const Arguments&) { return v.is(Kind::text); }},
      {"true", [](const Value& v, const Arguments&) { return v.is(Kind::boolean) && v.boolean(); }},
      {"undefined", [](const Value& v, const Arguments&) { return v.is(Kind::undefined); }},
      {"upper", [](const Value& v, const Arguments&) { return is_upper(v); }},
  };
  return table;
}

const Test* find_test(std::string_view name) {
  for (const auto& [key, test] : tests()) {
    if (key == name) return &test;
  }
  return nullptr;
}

}  // namespace

bool has_test(std::string_view name) {
  return find_test(name) != nullptr;
}

std::string test_names() {
  std::string out;
  for (const auto& [name, test] : tests()) out.append(out.empty() ? "" : ", ").append(name);
  return out;
}

bool apply_test(std::string_view name, const Value& value, const Arguments& arguments) {
  const Test* test = find_test(name);
  if (test == nullptr) raise("the test '", name, "' is not known");
  return (*test)(value, arguments);
}

}  // namespace glint::jinja
