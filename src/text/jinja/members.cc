// Look-ups: value.name, value[key], value[a:b:c].
#include <algorithm>

#include "text/jinja/builtins.h"

namespace glint::jinja {

namespace {

std::string object_name(const Value& value) {
  if (value.is(Kind::none)) return "'None'";
  return cat("'", type_name(value), " object'");
}

/// The index of a list or string as Python counts; npos if it is out of range.
size_t index_of(int64_t index, int64_t length) {
  if (index < 0) index += length;
  return index < 0 || index >= length ? std::string::npos : static_cast<size_t>(index);
}

Value element(const Value& value, int64_t index) {
  const size_t at = index_of(index, length_of(value));
  if (at == std::string::npos) return Value::undefined(cat(object_name(value), " has no element ", index));
  if (value.is(Kind::sequence)) return value.sequence().items[at];
  return {characters(value.text())[at]};
}

/// Start, stop and step as indices; all of Python's clamping.
struct Steps {
  int64_t start = 0, stop = 0, step = 1;
};

Steps clamped(const Value& start, const Value& stop, const Value& step, int64_t length) {
  const auto given = [](const Value& value) { return !value.is(Kind::none) && !value.is(Kind::undefined); };
  Steps out;
  if (given(step)) out.step = step.integer("the step of a slice");
  if (out.step == 0) raise("slice step cannot be zero");
  const int64_t low = out.step > 0 ? 0 : -1;
  const int64_t high = out.step > 0 ? length : length - 1;
  const auto bound = [&](const Value& value, int64_t otherwise) {
    if (!given(value)) return otherwise;
    int64_t at = value.integer("the bound of a slice");
    if (at < 0) at = at < -length ? low - 1 : at + length;
    return std::clamp(at, low, high);
  };
  out.start = bound(start, out.step > 0 ? low : high);
  out.stop = bound(stop, out.step > 0 ? high : low);
  return out;
}

}  // namespace

Value attribute_of(const Value& value, std::string_view name) {
  need_defined(value);
  if (value.is(Kind::object)) return value.object()->member(name);
  Value method = method_of(value, name);
  if (!method.is(Kind::undefined)) return method;
  if (value.is(Kind::dict)) {
    if (const Value* entry = value.dict().find(name)) return *entry;
  }
  return Value::undefined(cat(object_name(value), " has no attribute '", name, "'"));
}

Value item_of(const Value& value, const Value& key) {
  need_defined(value);
  if (value.is(Kind::dict)) {
    if (const Value* entry = value.dict().find(key)) return *entry;
  }
  if ((value.is(Kind::sequence) || value.is(Kind::text)) &&
      (key.is(Kind::integer) || key.is(Kind::boolean))) {
    return element(value, key.integer("an index"));
  }
  if (key.is(Kind::text)) {
    if (value.is(Kind::object)) return value.object()->member(key.text());
    Value method = method_of(value, key.text());
    if (!method.is(Kind::undefined)) return method;
    return Value::undefined(cat(object_name(value), " has no attribute '", key.text(), "'"));
  }
  return Value::undefined(cat(object_name(value), " has no element ", to_text(key)));
}

Value slice_of(const Value& value, const Value& start, const Value& stop, const Value& step) {
  need_defined(value);
  if (!value.is(Kind::text) && !value.is(Kind::sequence)) {
    raise(object_name(value), " cannot be sliced");
  }
  const std::vector<Value> items = items_of(value);
  const Steps steps = clamped(start, stop, step, static_cast<int64_t>(items.size()));
  std::vector<Value> out;
  for (int64_t at = steps.start; steps.step > 0 ? at < steps.stop : at > steps.stop; at += steps.step) {
    out.push_back(items[static_cast<size_t>(at)]);
    if (steps.step > static_cast<int64_t>(items.size()) || -steps.step > static_cast<int64_t>(items.size()))
      break;
  }
  if (value.is(Kind::sequence)) {
    return value.sequence().is_tuple ? Value::tuple(std::move(out)) : Value::list(std::move(out));
  }
  std::string text;
  for (const Value& character : out) text += character.text();
  return {std::move(text)};
}

}  // namespace glint::jinja
