// map, select, reject, selectattr and rejectattr.
#include "text/jinja/filters.h"

namespace glint::jinja {

namespace {

/// The positional arguments from `first` on.
Arguments rest_of(const Arguments& arguments, size_t first) {
  Arguments out;
  for (size_t i = first; i < arguments.positional.size(); ++i)
    out.positional.push_back(arguments.positional[i]);
  out.named = arguments.named;
  return out;
}

Value map(const Value& value, const Arguments& arguments) {
  if (!is_true(value)) return Value::list({});
  std::vector<Value> out;
  if (arguments.positional.empty()) {
    arguments.check("map", {"attribute", "default"});
    const Value* attribute = arguments.find(0, "attribute");
    if (attribute == nullptr) raise("map requires a filter argument");
    const Value* fallback = arguments.find(1, "default");
    for (const Value& item : items_of(value)) {
      Value found = value_at(item, *attribute);
      out.push_back(found.is(Kind::undefined) && fallback != nullptr ? *fallback : std::move(found));
    }
    return Value::list(std::move(out));
  }
  const std::string& name = arguments.positional[0].text("map's filter");
  if (!has_filter(name)) raise("No filter named '", name, "'.");
  const Arguments rest = rest_of(arguments, 1);
  for (const Value& item : items_of(value)) out.push_back(apply_filter(name, item, rest));
  return Value::list(std::move(out));
}

/// Keeps the items whose test (or whose truth, without a test) equals `wanted`.
Value chosen(const Value& value, const Arguments& arguments, bool by_attribute, bool wanted) {
  const size_t test_at = by_attribute ? 1 : 0;
  if (by_attribute && arguments.positional.empty()) raise("selectattr and rejectattr need an attribute");
  const bool has_own_test = arguments.positional.size() > test_at;
  const std::string test = has_own_test ? arguments.positional[test_at].text("the test") : "";
  const auto is_sign = [&] {
    return test == "==" || test == "!=" || test == "<" || test == "<=" || test == ">" || test == ">=";
  };
  const std::string name = !has_own_test || !is_sign() ? test
                           : test == "=="              ? "eq"
                           : test == "!="              ? "ne"
                           : test == "<"               ? "lt"
                           : test == "<="              ? "le"
                           : test == ">"               ? "gt"
                                                       : "ge";
  if (has_own_test && !has_test(name)) raise("No test named '", name, "'.");
  const Arguments rest = rest_of(arguments, test_at + 1);
  std::vector<Value> out;
  if (!is_true(value)) return Value::list({});
  for (const Value& item : items_of(value)) {
    const Value subject = by_attribute ? value_at(item, arguments.positional[0]) : item;
    const bool holds = has_own_test ? apply_test(name, subject, rest) : is_true(subject);
    if (holds == wanted) out.push_back(item);
  }
  return Value::list(std::move(out));
}

}  // namespace

const FilterTable& select_filters() {
  static const FilterTable table = {
      {"map", map},
      {"reject", [](const Value& v, const Arguments& a) { return chosen(v, a, false, false); }},
      {"rejectattr", [](const Value& v, const Arguments& a) { return chosen(v, a, true, false); }},
      {"select", [](const Value& v, const Arguments& a) { return chosen(v, a, false, true); }},
      {"selectattr", [](const Value& v, const Arguments& a) { return chosen(v, a, true, true); }},
  };
  return table;
}

}  // namespace glint::jinja
