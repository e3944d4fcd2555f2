// Filters of lists, and of what can be read as one.
#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/literals.h"

namespace glint::jinja {

Value value_at(const Value& value, const Value& path) {
  if (path.is(Kind::integer)) return item_of(value, path);
  const std::string& dotted = path.text("an attribute");
  Value out = value;
  for (size_t at = 0; at <= dotted.size();) {
    const size_t end = std::min(dotted.find('.', at), dotted.size());
    const std::string step = dotted.substr(at, end - at);
    const bool is_number = !step.empty() && step.find_first_not_of("0123456789") == std::string::npos;
    out = item_of(out, is_number ? parse_integer(step) : Value(step));
    at = end + 1;
  }
  return out;
}

namespace {

/// What Jinja sorts and compares by: strings in lower case unless case counts.
Value sort_key(const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is(Kind::text)) return value;
  return {lower(value.text())};
}

bool flag(const Arguments& arguments, size_t place, std::string_view name) {
  const Value* value = arguments.find(place, name);
  return value != nullptr && is_true(*value);
}

const Value* given(const Arguments& arguments, size_t place, std::string_view name) {
  const Value* value = arguments.find(place, name);
  return value == nullptr || value->is(Kind::none) ? nullptr : value;
}

std::vector<Value> keys_of(const std::vector<Value>& items, const Value* attribute, bool case_sensitive) {
  std::vector<Value> out;
  out.reserve(items.size());
  for (const Value& item : items) {
    out.push_back(sort_key(attribute == nullptr ? item : value_at(item, *attribute), case_sensitive));
  }
  return out;
}

std::vector<Value> sorted(const std::vector<Value>& items, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  // As Python: equal ones keep their order, also in reverse.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reverse ? less(keys[b], keys[a]) : less(keys[a], keys[b]);
  });
  std::vector<Value> out;
  for (const size_t i : order) out.push_back(items[i]);
  return out;
}

Value sort(const Value& value, const Arguments& arguments) {
  arguments.check("sort", {"reverse", "case_sensitive", "attribute"});
  const std::vector<Value> items = items_of(value);
  const std::vector<Value> keys =
      keys_of(items, given(arguments, 2, "attribute"), flag(arguments, 1, "case_sensitive"));
  return Value::list(sorted(items, keys, flag(arguments, 0, "reverse")));
}

Value dict_sort(const Value& value, const Arguments& arguments) {
  arguments.check("dictsort", {"case_sensitive", "by", "reverse"});
  if (!value.is(Kind::dict)) raise("dictsort needs a dict, not ", type_name(value));
  const Value* by = given(arguments, 1, "by");
  const bool by_value = by != nullptr && by->text("by") == "value";
  std::vector<Value> pairs;
  std::vector<Value> keys;
  for (const auto& [key, entry] : value.dict().entries) {
    pairs.push_back(Value::tuple({key, entry}));
    keys.push_back(sort_key(by_value ? entry : key, flag(arguments, 0, "case_sensitive")));
  }
  return Value::list(sorted(pairs, keys, flag(arguments, 2, "reverse")));
}

Value unique(const Value& value, const Arguments& arguments) {
  arguments.check("unique", {"case_sensitive", "attribute"});
  const std::vector<Value> items = items_of(value);
  const std::vector<Value> keys =
      keys_of(items, given(arguments, 1, "attribute"), flag(arguments, 0, "case_sensitive"));
  std::vector<Value> out;
  std::vector<Value> seen;
  for (size_t i = 0; i < items.size(); ++i) {
    need_hashable(keys[i]);
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& key) { return equal(key, keys[i]); }))
      continue;
    seen.push_back(keys[i]);
    out.push_back(items[i]);
  }
  return Value::list(std::move(out));
}

Value extreme(const Value& value, const Arguments& arguments, bool largest) {
  arguments.check(largest ? "max" : "min", {"case_sensitive", "attribute"});
  const std::vector<Value> items = items_of(value);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const std::vector<Value> keys =
      keys_of(items, given(arguments, 1, "attribute"), flag(arguments, 0, "case_sensitive"));
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    if (largest ? less(keys[best], keys[i]) : less(keys[i], keys[best])) best = i;
  }
  return items[best];
}

Value sum(const Value& value, const Arguments& arguments) {
  arguments.check("sum", {"attribute", "start"});
  const Value* attribute = given(arguments, 0, "attribute");
  const Value* start = given(arguments, 1, "start");
  Value out = start == nullptr ? Value(int64_t{0}) : *start;
  for (const Value& item : items_of(value)) {
    out = binary("+", out, attribute == nullptr ? item : value_at(item, *attribute));
  }
  return out;
}

Value join(const Value& value, const Arguments& arguments) {
  arguments.check("join", {"d", "attribute"});
  const Value* separator = given(arguments, 0, "d");
  const Value* attribute = given(arguments, 1, "attribute");
  std::string out;
  bool first = true;
  for (const Value& item : items_of(value)) {
    if (!first && separator != nullptr) append_text(out, *separator);
    first = false;
    append_text(out, attribute == nullptr ? item : value_at(item, *attribute));
    if (static_cast<int64_t>(out.size()) > kTextBytesMax) raise("the string is too long");
  }
  return {std::move(out)};
}

Value reverse(const Value& value, const Arguments& /*arguments*/) {
  std::vector<Value> items = items_of(value);
  std::reverse(items.begin(), items.end());
  if (!value.is(Kind::text)) return Value::list(std::move(items));
  std::string out;
  for (const Value& character : items) out += character.text();
  return {std::move(out)};
}

Value edge(const Value& value, bool last) {
  const std::vector<Value> items = items_of(value);
  if (items.empty()) return Value::undefined("the sequence was empty");
  return last ? items.back() : items.front();
}

Value pairs(const Value& value, const Arguments& /*arguments*/) {
  if (value.is(Kind::undefined)) return Value::list({});
  if (!value.is(Kind::dict)) raise("Can only get item pairs from a mapping.");
  return method_of(value, "items").function()->call({});
}

Value batch(const Value& value, const Arguments& arguments) {
  arguments.check("batch", {"linecount", "fill_with"});
  const Value* count = given(arguments, 0, "linecount");
  if (count == nullptr) raise("batch needs a count");
  const int64_t length = std::max<int64_t>(1, count->integer("linecount"));
  const Value* fill = given(arguments, 1, "fill_with");
  std::vector<Value> out;
  std::vector<Value> line;
  for (const Value& item : items_of(value)) {
    if (static_cast<int64_t>(line.size()) == length) out.push_back(Value::list(std::exchange(line, {})));
    line.push_back(item);
  }
  if (line.empty()) return Value::list(std::move(out));
  while (fill != nullptr && static_cast<int64_t>(line.size()) < length) line.push_back(*fill);
  out.push_back(Value::list(std::move(line)));
  return Value::list(std::move(out));
}

Value attribute(const Value& value, const Arguments& arguments) {
  arguments.check("attr", {"name"});
  const Value* name = given(arguments, 0, "name");
  if (name == nullptr) raise("attr needs a name");
  if (value.is(Kind::dict)) return method_of(value, name->text("name"));  // keys are no attributes
  return attribute_of(value, name->text("name"));
}

}  // namespace

const FilterTable& list_filters() {
  static const Filter length = [](const Value& v, const Arguments&) { return Value(length_of(v)); };
  static const FilterTable table = {
      {"attr", attribute},
      {"batch", batch},
      {"count", length},
      {"dictsort", dict_sort},
      {"first", [](const Value& v, const Arguments&) { return edge(v, false); }},
      {"items", pairs},
      {"join", join},
      {"last", [](const Value& v, const Arguments&) { return edge(v, true); }},
      {"length", length},
      {"list", [](const Value& v, const Arguments&) { return Value::list(items_of(v)); }},
      {"max", [](const Value& v, const Arguments& a) { return extreme(v, a, true); }},
      {"min", [](const Value& v, const Arguments& a) { return extreme(v, a, false); }},
      {"reverse", reverse},
      {"sort", sort},
      {"sum", sum},
      {"unique", unique},
  };
  return table;
}

}  // namespace glint::jinja
