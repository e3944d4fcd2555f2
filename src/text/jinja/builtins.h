// Filters, tests, methods and globals: what a template finds ready-made.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace glint::jinja {

bool has_filter(std::string_view name);
bool has_test(std::string_view name);
/// All names with ", " between them, for errors.
std::string filter_names();
std::string test_names();

/// `value | name(arguments)`; has_filter(name).
Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments);
/// `value is name(arguments)`; has_test(name).
bool apply_test(std::string_view name, const Value& value, const Arguments& arguments);

/// value.name: a dict's methods come before its keys, as in Python.
Value attribute_of(const Value& value, std::string_view name);
/// value[key].
Value item_of(const Value& value, const Value& key);
/// value[start:stop:step]; none or undefined where left out. Raises for what is no string and no list.
Value slice_of(const Value& value, const Value& start, const Value& stop, const Value& step);

/// The method `name` of a string, list or dict, bound to it; undefined if there is no such method.
Value method_of(const Value& value, std::string_view name);

/// range, namespace, dict, raise_exception and strftime_now; undefined for another name.
Value global_named(std::string_view name);

/// +, -, *, /, //, %, ** and ~.
Value binary(std::string_view op, const Value& a, const Value& b);
/// - and +.
Value negated(const Value& value);

/// A function made from a C++ one.
Value make_function(std::string name, std::function<Value(const Arguments&)> body);

/// json.dumps with the options that Hugging Face's tojson takes.
std::string to_json(const Value& value, const Arguments& options);

/// str.upper, lower, capitalize (first character upper, the others lower), title.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);
std::string titled(std::string_view text);

/// str.replace(from, to, count); count < 0: all.
std::string replaced(std::string_view text, std::string_view from, std::string_view to, int64_t count);
/// str.strip of the characters in `set` (without: white space) on the chosen sides.
std::string_view stripped(std::string_view text, const std::string* set, bool left, bool right);
/// `text % arguments`, the conversions s, r, d, i, f and %.
std::string formatted(std::string_view text, const Value& arguments);

/// Bounds what one operation may make.
inline constexpr int64_t kTextBytesMax = int64_t{1} << 28;
inline constexpr int64_t kItemsMax = int64_t{1} << 22;
inline constexpr int64_t kRangeMax = 100'000;

}  // namespace glint::jinja
