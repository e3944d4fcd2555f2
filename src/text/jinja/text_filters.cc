// Filters of strings and numbers.
#include <algorithm>
#include <cmath>

#include "text/jinja/filters.h"
#include "text/jinja/literals.h"
#include "text/python_text.h"

namespace glint::jinja {

namespace {

Value trim(const Value& value, const Arguments& arguments) {
  arguments.check("trim", {"chars"});
  const Value* set = arguments.find(0, "chars");
  const bool is_given = set != nullptr && !set->is(Kind::none);
  const std::string text = to_text(value);
  return {stripped(text, is_given ? &set->text("chars") : nullptr, true, true)};
}

Value replace(const Value& value, const Arguments& arguments) {
  arguments.check("replace", {"old", "new", "count"});
  const Value* from = arguments.find(0, "old");
  const Value* to = arguments.find(1, "new");
  if (from == nullptr || to == nullptr) raise("replace needs what and by what");
  const Value* count = arguments.find(2, "count");
  const bool is_counted = count != nullptr && !count->is(Kind::none);
  return {replaced(to_text(value), to_text(*from), to_text(*to), is_counted ? count->integer("count") : -1)};
}

/// Words begin behind white space and - ( { [ <, as Jinja's title has it; the rest of a word is lower.
Value title(const Value& value, const Arguments& /*arguments*/) {
  const std::string text = to_text(value);
  std::string out;
  std::string word;
  for (const std::string_view character : characters(text)) {
    word += character;
    const bool ends = is_blank(character) || character.find_first_of("-({[<") != std::string_view::npos;
    if (!ends) continue;
    out += capitalized(word);
    word.clear();
  }
  return {out + capitalized(word)};
}

Value indent(const Value& value, const Arguments& arguments) {
  arguments.check("indent", {"width", "first", "blank"});
  std::string space(4, ' ');
  if (const Value* width = arguments.find(0, "width")) {
    space =
        width->is(Kind::text)
            ? width->text()
            : std::string(static_cast<size_t>(std::clamp<int64_t>(width->integer("width"), 0, 1000)), ' ');
  }
  const Value* first = arguments.find(1, "first");
  const Value* blank = arguments.find(2, "blank");
  const bool blank_too = blank != nullptr && is_true(*blank);
  const std::string text = value.text("the text of indent");
  std::string out;
  bool is_first = true;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    const bool indented = is_first ? first != nullptr && is_true(*first) : blank_too || !line.empty();
    if (!is_first) out += '\n';
    if (indented) out += space;
    out += line;
    is_first = false;
    at = end + 1;
  }
  return {std::move(out)};
}

Value to_integer(const Value& value, const Arguments& arguments) {
  arguments.check("int", {"default", "base"});
  const Value* otherwise = arguments.find(0, "default");
  const Value fallback = otherwise == nullptr ? Value(int64_t{0}) : *otherwise;
  need_defined(value);
  if (value.is(Kind::integer) || value.is(Kind::big_integer)) return value;
  if (value.is(Kind::boolean)) return {value.integer("")};
  Value real = value;
  if (value.is(Kind::text)) {
    Value number = parse_integer(value.text());
    if (!number.is(Kind::undefined)) return number;
    real = parse_real(value.text());
  }
  if (!real.is(Kind::real) || std::abs(real.real()) >= 9.2e18) return fallback;
  return {static_cast<int64_t>(real.real())};
}

Value to_real(const Value& value, const Arguments& arguments) {
  arguments.check("float", {"default"});
  const Value* otherwise = arguments.find(0, "default");
  need_defined(value);
  if (value.is_number()) return {value.number("")};
  const Value number = value.is(Kind::text) ? parse_real(value.text()) : Value();
  if (!number.is(Kind::undefined)) return number;
  return otherwise == nullptr ? Value(0.0) : *otherwise;
}

Value round_number(const Value& value, const Arguments& arguments) {
  arguments.check("round", {"precision", "method"});
  const Value* digits = arguments.find(0, "precision");
  const Value* method = arguments.find(1, "method");
  const std::string how = method == nullptr ? "common" : method->text("method");
  const int64_t precision =
      digits == nullptr ? 0 : std::clamp<int64_t>(digits->integer("precision"), -300, 300);
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double number = value.number("the value of round");
  if (how == "ceil") return {std::ceil(number * scale) / scale};
  if (how == "floor") return {std::floor(number * scale) / scale};
  if (how != "common") raise("round's method must be common, ceil or floor");
  const bool is_whole = value.is(Kind::integer) || value.is(Kind::boolean);
  if (is_whole && precision >= 0) return {value.integer("")};
  if (precision <= 0) return {std::nearbyint(number * scale) / scale};
  // Python rounds the exact decimal value; so does the C library's printing.
  char buffer[700];
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), number);
  return {std::strtod(buffer, nullptr)};
}

Value escape(const Value& value, const Arguments& /*arguments*/) {
  std::string out;
  for (const char byte : to_text(value)) {
    switch (byte) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += byte;
    }
  }
  return {std::move(out)};
}

Value absolute(const Value& value, const Arguments& /*arguments*/) {
  if (value.is(Kind::real)) return {std::abs(value.real())};
  if (value.is(Kind::boolean)) return {value.integer("")};
  const bool negative = less(value, Value(int64_t{0}));
  return negative ? negated(value) : value;
}

Value otherwise(const Value& value, const Arguments& arguments) {
  arguments.check("default", {"default_value", "boolean"});
  const Value* fallback = arguments.find(0, "default_value");
  const Value* boolean = arguments.find(1, "boolean");
  const bool replaces =
      value.is(Kind::undefined) || (boolean != nullptr && is_true(*boolean) && !is_true(value));
  if (!replaces) return value;
  return fallback == nullptr ? Value("") : *fallback;
}

Value format(const Value& value, const Arguments& arguments) {
  return {formatted(value.text("the format"), Value::tuple(arguments.positional))};
}

}  // namespace

const FilterTable& text_filters() {
  static const FilterTable table = {
      {"abs", absolute},
      {"capitalize", [](const Value& v, const Arguments&) { return Value(capitalized(to_text(v))); }},
      {"d", otherwise},
      {"default", otherwise},
      {"e", escape},
      {"escape", escape},
      {"float", to_real},
      {"format", format},
      {"indent", indent},
      {"int", to_integer},
      {"lower", [](const Value& v, const Arguments&) { return Value(lower(to_text(v))); }},
      {"replace", replace},
      {"round", round_number},
      {"safe", [](const Value& v, const Arguments&) { return Value(to_text(v)); }},
      {"string", [](const Value& v, const Arguments&) { return Value(to_text(v)); }},
      {"title", title},
      {"tojson", [](const Value& v, const Arguments& a) { return Value(to_json(v, a)); }},
      {"trim", trim},
      {"upper", [](const Value& v, const Arguments&) { return Value(upper(to_text(v))); }},
  };
  return table;
}

}  // namespace glint::jinja
