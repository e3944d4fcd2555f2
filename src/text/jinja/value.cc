#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/utf8.h"
#include "text/python_json.h"

namespace glint::jinja {

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name.is(Kind::text) && name.text() == key) return &value;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.is(Kind::text)) return find(std::string_view(key.text()));
  for (const auto& [name, value] : entries) {
    if (equal(name, key)) return &value;
  }
  return nullptr;
}

void need_hashable(const Value& value) {
  if (value.is(Kind::dict) || (value.is(Kind::sequence) && !value.sequence().is_tuple)) {
    raise("unhashable type: '", type_name(value), "'");
  }
}

void Dict::set(Value key, Value value) {
  need_hashable(key);
  for (auto& [name, old] : entries) {
    if (equal(name, key)) {
      old = std::move(value);
      return;
    }
  }
  entries.emplace_back(std::move(key), std::move(value));
}

Value Value::list(std::vector<Value> items) {
  return {std::make_shared<const Sequence>(Sequence{std::move(items), false})};
}

Value Value::tuple(std::vector<Value> items) {
  return {std::make_shared<const Sequence>(Sequence{std::move(items), true})};
}

Value Value::undefined(std::string hint) {
  return {Undefined{std::make_shared<const std::string>(std::move(hint))}};
}

Value Value::from_json(const OrderedJson& json) {
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return {json.get<bool>()};
    case OrderedJson::value_t::number_integer:
      return {json.get<int64_t>()};
    case OrderedJson::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(INT64_MAX)) return {BigInteger{std::to_string(number)}};
      return {static_cast<int64_t>(number)};
    }
    case OrderedJson::value_t::number_float:
      return {json.get<double>()};
    case OrderedJson::value_t::string:
      return {json.get_ref<const std::string&>()};
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const OrderedJson& item : json) items.push_back(from_json(item));
      return list(std::move(items));
    }
    case OrderedJson::value_t::object: {
      Dict dict;  // the reader has seen to it that keys differ
      for (const auto& [key, value] : json.get_ref<const OrderedJson::object_t&>()) {
        dict.entries.emplace_back(Value(key), from_json(value));
      }
      return {std::move(dict)};
    }
    case OrderedJson::value_t::binary: {
      const auto& bytes = json.get_binary();
      return {BigInteger{std::string(bytes.begin(), bytes.end())}};
    }
    default:
      return {None{}};
  }
}

bool Value::is_number() const {
  return is(Kind::boolean) || is(Kind::integer) || is(Kind::real) || is(Kind::big_integer);
}

int64_t Value::integer(std::string_view what) const {
  if (is(Kind::integer)) return std::get<int64_t>(data_);
  if (is(Kind::boolean)) return boolean() ? 1 : 0;
  need_defined(*this);
  raise(what, " must be an integer, not '", type_name(*this), "'");
}

double Value::number(std::string_view what) const {
  if (is(Kind::real)) return real();
  if (is(Kind::big_integer)) return std::strtod(big_integer().digits.c_str(), nullptr);
  if (is(Kind::integer) || is(Kind::boolean)) return static_cast<double>(integer(what));
  need_defined(*this);
  raise(what, " must be a number, not '", type_name(*this), "'");
}

const std::string& Value::text(std::string_view what) const {
  if (is(Kind::text)) return text();
  need_defined(*this);
  raise(what, " must be a string, not '", type_name(*this), "'");
}

const Value* Arguments::find(size_t place, std::string_view name) const {
  if (place < positional.size()) return &positional[place];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Arguments::check(std::string_view what, std::initializer_list<std::string_view> names) const {
  if (positional.size() > names.size()) {
    raise(what, " takes at most ", names.size(), " arguments, ", positional.size(), " are given");
  }
  for (const auto& [key, value] : named) {
    if (std::find(names.begin(), names.end(), key) == names.end()) {
      raise(what, " has no argument called '", key, "'");
    }
  }
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
    case Kind::big_integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::text:
      return "str";
    case Kind::sequence:
      return value.sequence().is_tuple ? "tuple" : "list";
    case Kind::dict:
      return "dict";
    case Kind::function:
      return "function";
    case Kind::object:
      return "object";
  }
  return "object";
}

void need_defined(const Value& value) {
  if (!value.is(Kind::undefined)) return;
  const auto& hint = value.undefined().hint;
  raise(hint == nullptr ? std::string("a value is undefined") : *hint);
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return value.boolean();
    case Kind::integer:
      return value.integer("") != 0;
    case Kind::real:
      return value.real() != 0;
    case Kind::text:
      return !value.text().empty();
    case Kind::sequence:
      return !value.sequence().items.empty();
    case Kind::dict:
      return !value.dict().entries.empty();
    default:
      return true;
  }
}

bool equal(const Value& a, const Value& b) {
  if (a.is(Kind::big_integer) && b.is(Kind::big_integer))
    return a.big_integer().digits == b.big_integer().digits;
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::real) || b.is(Kind::real) || a.is(Kind::big_integer) || b.is(Kind::big_integer)) {
      return a.number("") == b.number("");
    }
    return a.integer("") == b.integer("");
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::text:
      return a.text() == b.text();
    case Kind::sequence: {
      const Sequence& x = a.sequence();
      const Sequence& y = b.sequence();
      return x.is_tuple == y.is_tuple &&
             std::equal(x.items.begin(), x.items.end(), y.items.begin(), y.items.end(), equal);
    }
    case Kind::dict: {
      if (a.dict().entries.size() != b.dict().entries.size()) return false;
      for (const auto& [key, value] : a.dict().entries) {
        const Value* other = b.dict().find(key);
        if (other == nullptr || !equal(value, *other)) return false;
      }
      return true;
    }
    case Kind::function:
      return a.function() == b.function();
    case Kind::object:
      return a.object() == b.object();
    default:
      return true;  // none, undefined
  }
}

bool less(const Value& a, const Value& b) {
  need_defined(a);
  need_defined(b);
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::real) || b.is(Kind::real) || a.is(Kind::big_integer) || b.is(Kind::big_integer)) {
      return a.number("") < b.number("");
    }
    return a.integer("") < b.integer("");
  }
  // In UTF-8 the order of bytes is that of code points.
  if (a.is(Kind::text) && b.is(Kind::text)) return a.text() < b.text();
  if (a.is(Kind::sequence) && b.is(Kind::sequence) && a.sequence().is_tuple == b.sequence().is_tuple) {
    const auto& x = a.sequence().items;
    const auto& y = b.sequence().items;
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!equal(x[i], y[i])) return less(x[i], y[i]);
    }
    return x.size() < y.size();
  }
  raise("'<' not supported between instances of '", type_name(a), "' and '", type_name(b), "'");
}

bool contains(const Value& haystack, const Value& needle) {
  switch (haystack.kind()) {
    case Kind::undefined:
      return false;
    case Kind::text:
      if (!needle.is(Kind::text)) {
        need_defined(needle);
        raise("'in <string>' requires string as left operand, not ", type_name(needle));
      }
      return haystack.text().find(needle.text()) != std::string::npos;
    case Kind::sequence: {
      const auto& items = haystack.sequence().items;
      return std::any_of(items.begin(), items.end(), [&](const Value& item) { return equal(item, needle); });
    }
    case Kind::dict:
      need_hashable(needle);
      return haystack.dict().find(needle) != nullptr;
    default:
      raise("argument of type '", type_name(haystack), "' is not iterable");
  }
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = std::max<size_t>(1, utf8_step(text, at).bytes);
    out.push_back(text.substr(at, bytes));
    at += bytes;
  }
  return out;
}

std::vector<Value> items_of(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return {};
    case Kind::sequence:
      return value.sequence().items;
    case Kind::text: {
      std::vector<Value> out;
      for (const std::string_view character : characters(value.text())) out.emplace_back(character);
      return out;
    }
    case Kind::dict: {
      std::vector<Value> out;
      for (const auto& [key, entry] : value.dict().entries) out.push_back(key);
      return out;
    }
    default:
      raise("'", type_name(value), "' object is not iterable");
  }
}

int64_t length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::sequence:
      return static_cast<int64_t>(value.sequence().items.size());
    case Kind::dict:
      return static_cast<int64_t>(value.dict().entries.size());
    case Kind::text:
      return std::count_if(value.text().begin(), value.text().end(),
                           [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; });
    default:
      raise("object of type '", type_name(value), "' has no len()");
  }
}

}  // namespace glint::jinja
