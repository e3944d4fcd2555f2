// Functions that every template finds: range, namespace, dict, raise_exception, strftime_now.
#include <array>
#include <ctime>

#include "text/jinja/builtins.h"
#include "text/jinja/template.h"

namespace glint::jinja {

namespace {

class Namespace final : public Object {
 public:
  explicit Namespace(Dict members) : members_(std::move(members)) {}

  [[nodiscard]] Value member(std::string_view name) override {
    if (const Value* value = members_.find(name)) return *value;
    return Value::undefined(cat("'Namespace object' has no attribute '", name, "'"));
  }
  void assign(std::string_view name, Value value) override { members_.set(Value(name), std::move(value)); }
  [[nodiscard]] std::string repr() const override {
    return cat("<Namespace ", to_text(Value(members_)), ">");
  }

 private:
  Dict members_;
};

/// A dict of pairs or of a dict, and of named arguments.
Dict dict_of(const Arguments& arguments, std::string_view what) {
  if (arguments.positional.size() > 1) raise(what, " takes at most one positional argument");
  Dict out;
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (from.is(Kind::dict)) {
      out = from.dict();
    } else {
      for (const Value& pair : items_of(from)) {
        const std::vector<Value> parts = items_of(pair);
        if (parts.size() != 2) raise(what, " takes pairs");
        out.set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) out.set(Value(name), value);
  return out;
}

Value range(const Arguments& arguments) {
  const auto& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty())
    raise("range takes one to three numbers");
  const int64_t start = given.size() == 1 ? 0 : given[0].integer("range");
  const int64_t stop = given[given.size() == 1 ? 0 : 1].integer("range");
  const int64_t step = given.size() == 3 ? given[2].integer("range") : 1;
  if (step == 0) raise("range() arg 3 must not be zero");
  std::vector<Value> out;
  for (int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (static_cast<int64_t>(out.size()) >= kRangeMax) raise("a range is at most ", kRangeMax, " long");
    out.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value::list(std::move(out));
}

Value formatted_now(const Arguments& arguments) {
  if (arguments.positional.size() != 1) raise("strftime_now takes a format");
  const std::string& format = arguments.positional[0].text("the format");
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 512> buffer{};
  const size_t length = std::strftime(buffer.data(), buffer.size(), format.c_str(), &parts);
  return {std::string(buffer.data(), length)};
}

Value refuse(const Arguments& arguments) {
  const Value* message = arguments.find(0, "message");
  throw Raised(message == nullptr ? "the template raised an exception" : to_text(*message));
}

}  // namespace

Value global_named(std::string_view name) {
  static const Value kRange = make_function("range", range);
  static const Value kRefuse = make_function("raise_exception", refuse);
  static const Value kNow = make_function("strftime_now", formatted_now);
  static const Value kDict =
      make_function("dict", [](const Arguments& a) { return Value(dict_of(a, "dict")); });
  static const Value kNamespace = make_function("namespace", [](const Arguments& a) {
    return Value(std::shared_ptr<Object>(std::make_shared<Namespace>(dict_of(a, "namespace"))));
  });
  if (name == "range") return kRange;
  if (name == "namespace") return kNamespace;
  if (name == "dict") return kDict;
  if (name == "raise_exception") return kRefuse;
  if (name == "strftime_now") return kNow;
  return {};
}

}  // namespace glint::jinja
