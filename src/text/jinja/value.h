// Values of a chat template, with Python's meaning: what is true, equal, smaller, and how it prints.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

namespace glint::jinja {

/// What a template did wrong while it ran (bad_input): Python would raise here.
template <class... Parts>
[[noreturn]] void raise(const Parts&... parts) {
  fail(ErrorKind::bad_input, parts...);
}

class Value;
class Function;
class Object;

/// A name or member that is not there; what it was, for the error of who uses it.
struct Undefined {
  std::shared_ptr<const std::string> hint;  // "'x' is undefined"; null: none
};
struct None {};
/// An integer beyond int64, as its decimal digits: it prints, compares for equality, and counts no further.
struct BigInteger {
  std::string digits;
};
using Text = std::shared_ptr<const std::string>;
/// A list, or a tuple.
struct Sequence {
  std::vector<Value> items;
  bool is_tuple = false;
};
/// A dict: keys in the order of insertion. Look-up is linear (template dicts are small).
struct Dict {
  std::vector<std::pair<Value, Value>> entries;

  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] const Value* find(const Value& key) const;
  void set(Value key, Value value);
};

enum class Kind {
  undefined,
  none,
  boolean,
  integer,
  big_integer,
  real,
  text,
  sequence,
  dict,
  function,
  object
};

class Value {
 public:
  Value() : data_(Undefined{}) {}
  Value(Undefined value) : data_(std::move(value)) {}
  Value(None value) : data_(value) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(BigInteger value) : data_(std::move(value)) {}
  Value(std::string value) : data_(std::make_shared<const std::string>(std::move(value))) {}
  Value(std::string_view value) : Value(std::string(value)) {}
  Value(const char* value) : Value(std::string(value)) {}
  Value(Text value) : data_(std::move(value)) {}
  Value(Dict value) : data_(std::make_shared<const Dict>(std::move(value))) {}
  Value(std::shared_ptr<const Dict> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<const Sequence> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<const Function> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<Object> value) : data_(std::move(value)) {}
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value undefined(std::string hint);
  /// Big integers as parse_python_json keeps them.
  static Value from_json(const nlohmann::ordered_json& json);

  [[nodiscard]] Kind kind() const { return static_cast<Kind>(data_.index()); }
  [[nodiscard]] bool is(Kind kind) const { return this->kind() == kind; }
  /// A number in Python's sense: True and False count.
  [[nodiscard]] bool is_number() const;

  [[nodiscard]] bool boolean() const { return std::get<bool>(data_); }
  [[nodiscard]] double real() const { return std::get<double>(data_); }
  [[nodiscard]] const std::string& text() const { return *std::get<Text>(data_); }
  [[nodiscard]] const Sequence& sequence() const { return *std::get<std::shared_ptr<const Sequence>>(data_); }
  [[nodiscard]] const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  [[nodiscard]] const std::shared_ptr<const Function>& function() const {
    return std::get<std::shared_ptr<const Function>>(data_);
  }
  [[nodiscard]] const std::shared_ptr<Object>& object() const {
    return std::get<std::shared_ptr<Object>>(data_);
  }
  [[nodiscard]] const BigInteger& big_integer() const { return std::get<BigInteger>(data_); }
  [[nodiscard]] const Undefined& undefined() const { return std::get<Undefined>(data_); }

  /// An int or a bool as int64; raises `what` + " must be an integer" for everything else.
  [[nodiscard]] int64_t integer(std::string_view what) const;
  /// A number as double; raises likewise.
  [[nodiscard]] double number(std::string_view what) const;
  /// A string; raises likewise.
  [[nodiscard]] const std::string& text(std::string_view what) const;

 private:
  std::variant<Undefined, None, bool, int64_t, BigInteger, double, Text, std::shared_ptr<const Sequence>,
               std::shared_ptr<const Dict>, std::shared_ptr<const Function>, std::shared_ptr<Object>>
      data_;
};

/// Arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The argument at `place` or called `name`; null if it is not given.
  [[nodiscard]] const Value* find(size_t place, std::string_view name) const;
  /// Raises "`what` takes at most ..." if there are more positional ones or other names than `names`.
  void check(std::string_view what, std::initializer_list<std::string_view> names) const;
};

/// Something that can be called: a macro, a global, a bound method.
class Function {
 public:
  virtual ~Function() = default;
  [[nodiscard]] virtual Value call(const Arguments& arguments) const = 0;
  [[nodiscard]] virtual std::string name() const = 0;
};

/// Something with members of its own: a namespace, `loop`.
class Object {
 public:
  virtual ~Object() = default;
  /// Undefined if there is no such member.
  [[nodiscard]] virtual Value member(std::string_view name) = 0;
  /// Raises unless the object is a namespace.
  virtual void assign(std::string_view name, Value value) = 0;
  [[nodiscard]] virtual std::string repr() const = 0;
};

/// "str", "int", "list", ... as Python's error texts call them.
std::string_view type_name(const Value& value);

/// Raises the error of using `value` if it is undefined.
void need_defined(const Value& value);

/// Raises for a list or a dict: they can be no keys.
void need_hashable(const Value& value);

bool is_true(const Value& value);
/// `==`; 1 == 1.0 == True.
bool equal(const Value& a, const Value& b);
/// `<`; numbers, strings by code point, lists. Raises for what Python cannot order.
bool less(const Value& a, const Value& b);
/// `needle in haystack`.
bool contains(const Value& haystack, const Value& needle);

/// str(value): what `{{ value }}` prints; "" for undefined.
std::string to_text(const Value& value);
void append_text(std::string& out, const Value& value);
/// repr(value), as inside of a printed list.
void append_repr(std::string& out, const Value& value);

/// The members when iterated over: of a list, of a string its characters, of a dict its keys, of undefined
/// none. Raises for others.
std::vector<Value> items_of(const Value& value);
/// len(value); undefined has none.
int64_t length_of(const Value& value);

/// Code points of `text` (valid UTF-8) as views.
std::vector<std::string_view> characters(std::string_view text);

}  // namespace glint::jinja
