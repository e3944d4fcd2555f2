// Methods of strings, lists and dicts that leave their object as it is.
#include <algorithm>
#include <functional>
#include <utility>

#include "text/jinja/builtins.h"
#include "text/python_text.h"

namespace glint::jinja {

namespace {

class Bound final : public Function {
 public:
  Bound(std::string name, std::function<Value(const Arguments&)> body)
      : name_(std::move(name)), body_(std::move(body)) {}
  [[nodiscard]] Value call(const Arguments& arguments) const override { return body_(arguments); }
  [[nodiscard]] std::string name() const override { return name_; }

 private:
  std::string name_;
  std::function<Value(const Arguments&)> body_;
};

const std::string& text_argument(const Arguments& arguments, size_t place, std::string_view name) {
  const Value* value = arguments.find(place, name);
  if (value == nullptr) raise("the argument '", name, "' is missing");
  return value->text(name);
}

int64_t integer_argument(const Arguments& arguments, size_t place, std::string_view name, int64_t otherwise) {
  const Value* value = arguments.find(place, name);
  return value == nullptr ? otherwise : value->integer(name);
}

/// The set of characters of strip; null if none is given.
const std::string* strip_set(const Arguments& arguments) {
  const Value* set = arguments.find(0, "chars");
  return set == nullptr || set->is(Kind::none) ? nullptr : &set->text("chars");
}

Value split_at_space(std::string_view text, int64_t count) {
  std::vector<Value> out;
  std::string_view rest = python_lstrip(text);
  while (!rest.empty()) {
    if (count == 0) {
      out.emplace_back(python_rstrip(rest));
      break;
    }
    size_t end = 0;
    while (end < rest.size() && python_lstrip(rest.substr(end)).size() == rest.size() - end) ++end;
    out.emplace_back(rest.substr(0, end));
    rest = python_lstrip(rest.substr(end));
    --count;
  }
  return Value::list(std::move(out));
}

Value split(std::string_view text, const Arguments& arguments, bool from_right) {
  arguments.check("split", {"sep", "maxsplit"});
  const int64_t count = integer_argument(arguments, 1, "maxsplit", -1);
  const Value* separator = arguments.find(0, "sep");
  if (separator == nullptr || separator->is(Kind::none)) {
    if (from_right && count >= 0) raise("rsplit with a count needs a separator here");
    return split_at_space(text, count);
  }
  const std::string& cut = separator->text("sep");
  if (cut.empty()) raise("empty separator");
  std::vector<Value> out;
  for (int64_t left = count; left != 0; --left) {
    const size_t at = from_right ? text.rfind(cut) : text.find(cut);
    if (at == std::string_view::npos) break;
    out.emplace_back(from_right ? text.substr(at + cut.size()) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at + cut.size());
  }
  out.emplace_back(text);
  if (from_right) std::reverse(out.begin(), out.end());
  return Value::list(std::move(out));
}

Value split_lines(std::string_view text) {
  std::vector<Value> out;
  while (!text.empty()) {
    const size_t end = text.find_first_of("\n\r");
    out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + (text.substr(end).starts_with("\r\n") ? 2 : 1));
  }
  return Value::list(std::move(out));
}

bool has_affix(std::string_view text, const Arguments& arguments, bool at_end) {
  if (arguments.positional.size() != 1) raise(at_end ? "endswith" : "startswith", " takes one argument here");
  const Value& affix = arguments.positional[0];
  const auto fits = [&](const Value& one) {
    const std::string& part = one.text("an affix");
    return at_end ? text.ends_with(part) : text.starts_with(part);
  };
  if (!affix.is(Kind::sequence)) return fits(affix);
  return std::any_of(affix.sequence().items.begin(), affix.sequence().items.end(), fits);
}

/// str.find, counted in characters; -1 if it is not there.
int64_t found(std::string_view text, std::string_view part, bool from_right) {
  const size_t at = from_right ? text.rfind(part) : text.find(part);
  return at == std::string_view::npos ? -1 : length_of(Value(text.substr(0, at)));
}

Value partitioned(std::string_view text, std::string_view cut, bool from_right) {
  if (cut.empty()) raise("empty separator");
  const size_t at = from_right ? text.rfind(cut) : text.find(cut);
  if (at == std::string_view::npos) {
    return from_right ? Value::tuple({Value(""), Value(""), Value(text)})
                      : Value::tuple({Value(text), Value(""), Value("")});
  }
  return Value::tuple({Value(text.substr(0, at)), Value(cut), Value(text.substr(at + cut.size()))});
}

int64_t occurrences(std::string_view text, std::string_view part) {
  if (part.empty()) return length_of(Value(text)) + 1;
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

Value text_joined(const std::string& separator, const Arguments& arguments) {
  if (arguments.positional.size() != 1) raise("join takes one argument");
  std::string out;
  bool first = true;
  for (const Value& item : items_of(arguments.positional[0])) {
    if (!first) out += separator;
    first = false;
    out += item.text("an item of join");
  }
  return {std::move(out)};
}

using TextMethod = Value (*)(const std::string&, const Arguments&);

const std::vector<std::pair<std::string_view, TextMethod>>& text_methods() {
  static const std::vector<std::pair<std::string_view, TextMethod>> methods = {
      {"split", [](const std::string& text, const Arguments& a) { return split(text, a, false); }},
      {"rsplit", [](const std::string& text, const Arguments& a) { return split(text, a, true); }},
      {"splitlines", [](const std::string& text, const Arguments&) { return split_lines(text); }},
      {"strip", [](const std::string& text,
                   const Arguments& a) { return Value(stripped(text, strip_set(a), true, true)); }},
      {"lstrip", [](const std::string& text,
                    const Arguments& a) { return Value(stripped(text, strip_set(a), true, false)); }},
      {"rstrip", [](const std::string& text,
                    const Arguments& a) { return Value(stripped(text, strip_set(a), false, true)); }},
      {"startswith",
       [](const std::string& text, const Arguments& a) { return Value(has_affix(text, a, false)); }},
      {"endswith",
       [](const std::string& text, const Arguments& a) { return Value(has_affix(text, a, true)); }},
      {"replace",
       [](const std::string& text, const Arguments& a) {
         return Value(replaced(text, text_argument(a, 0, "old"), text_argument(a, 1, "new"),
                               integer_argument(a, 2, "count", -1)));
       }},
      {"removeprefix",
       [](const std::string& text, const Arguments& a) {
         const std::string& prefix = text_argument(a, 0, "prefix");
         return Value(text.starts_with(prefix) ? text.substr(prefix.size()) : text);
       }},
      {"removesuffix",
       [](const std::string& text, const Arguments& a) {
         const std::string& suffix = text_argument(a, 0, "suffix");
         return Value(text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text);
       }},
      {"upper", [](const std::string& text, const Arguments&) { return Value(upper(text)); }},
      {"lower", [](const std::string& text, const Arguments&) { return Value(lower(text)); }},
      {"capitalize", [](const std::string& text, const Arguments&) { return Value(capitalized(text)); }},
      {"title", [](const std::string& text, const Arguments&) { return Value(titled(text)); }},
      {"find", [](const std::string& text,
                  const Arguments& a) { return Value(found(text, text_argument(a, 0, "sub"), false)); }},
      {"rfind", [](const std::string& text,
                   const Arguments& a) { return Value(found(text, text_argument(a, 0, "sub"), true)); }},
      {"index",
       [](const std::string& text, const Arguments& a) {
         const int64_t at = found(text, text_argument(a, 0, "sub"), false);
         if (at < 0) raise("substring not found");
         return Value(at);
       }},
      {"count", [](const std::string& text,
                   const Arguments& a) { return Value(occurrences(text, text_argument(a, 0, "sub"))); }},
      {"partition", [](const std::string& text,
                       const Arguments& a) { return partitioned(text, text_argument(a, 0, "sep"), false); }},
      {"rpartition", [](const std::string& text,
                        const Arguments& a) { return partitioned(text, text_argument(a, 0, "sep"), true); }},
      {"join", text_joined},
      {"isspace",
       [](const std::string& text, const Arguments&) { return Value(!text.empty() && is_blank(text)); }},
      {"isdigit",
       [](const std::string& text, const Arguments&) {
         return Value(!text.empty() && text.find_first_not_of("0123456789") == std::string::npos);
       }},
  };
  return methods;
}

Value list_method(const Value& list, std::string_view name) {
  if (name == "index") {
    return make_function("index", [list](const Arguments& arguments) {
      if (arguments.positional.size() != 1) raise("index takes one argument here");
      const auto& items = list.sequence().items;
      for (size_t i = 0; i < items.size(); ++i) {
        if (equal(items[i], arguments.positional[0])) return Value(static_cast<int64_t>(i));
      }
      raise(to_text(arguments.positional[0]), " is not in list");
    });
  }
  if (name == "count") {
    return make_function("count", [list](const Arguments& arguments) {
      if (arguments.positional.size() != 1) raise("count takes one argument");
      const auto& items = list.sequence().items;
      return Value(static_cast<int64_t>(std::count_if(items.begin(), items.end(), [&](const Value& item) {
        return equal(item, arguments.positional[0]);
      })));
    });
  }
  return {};
}

Value pairs_of(const Dict& dict) {
  std::vector<Value> out;
  for (const auto& [key, value] : dict.entries) out.push_back(Value::tuple({key, value}));
  return Value::list(std::move(out));
}

Value dict_method(const Value& dict, std::string_view name) {
  if (name == "items")
    return make_function("items", [dict](const Arguments&) { return pairs_of(dict.dict()); });
  if (name == "keys")
    return make_function("keys", [dict](const Arguments&) { return Value::list(items_of(dict)); });
  if (name == "values") {
    return make_function("values", [dict](const Arguments&) {
      std::vector<Value> out;
      for (const auto& [key, value] : dict.dict().entries) out.push_back(value);
      return Value::list(std::move(out));
    });
  }
  if (name == "copy") return make_function("copy", [dict](const Arguments&) { return dict; });
  if (name == "get") {
    return make_function("get", [dict](const Arguments& arguments) {
      arguments.check("get", {"key", "default"});
      const Value* key = arguments.find(0, "key");
      if (key == nullptr) raise("get needs a key");
      if (const Value* value = dict.dict().find(*key)) return *value;
      const Value* otherwise = arguments.find(1, "default");
      return otherwise == nullptr ? Value(None{}) : *otherwise;
    });
  }
  return {};
}

/// Methods that would change their object: refused by name when they are called, as the sandbox does.
bool is_mutating(const Value& value, std::string_view name) {
  if (value.is(Kind::sequence)) {
    return name == "append" || name == "extend" || name == "insert" || name == "pop" || name == "remove" ||
           name == "sort" || name == "reverse" || name == "clear";
  }
  return name == "pop" || name == "popitem" || name == "update" || name == "setdefault" || name == "clear";
}

}  // namespace

Value make_function(std::string name, std::function<Value(const Arguments&)> body) {
  return {std::shared_ptr<const Function>(std::make_shared<const Bound>(std::move(name), std::move(body)))};
}

Value method_of(const Value& value, std::string_view name) {
  if (value.is(Kind::text)) {
    for (const auto& [method, body] : text_methods()) {
      if (method != name) continue;
      return make_function(std::string(name), [value, body = body](const Arguments& arguments) {
        return body(value.text(), arguments);
      });
    }
    return {};
  }
  if (!value.is(Kind::sequence) && !value.is(Kind::dict)) return {};
  if (is_mutating(value, name)) {
    return make_function(std::string(name),
                         [type = type_name(value), name = std::string(name)](const Arguments&) -> Value {
                           raise("access to attribute '", name, "' of '", type, "' object is unsafe");
                         });
  }
  return value.is(Kind::sequence) ? list_method(value, name) : dict_method(value, name);
}

}  // namespace glint::jinja
