// Python's replace, strip and % on strings.
#include <algorithm>
#include <cstdio>

#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/python_text.h"

namespace glint::jinja {

std::string replaced(std::string_view text, std::string_view from, std::string_view to, int64_t count) {
  std::string out;
  if (from.empty()) {  // between all characters
    for (const std::string_view character : characters(text)) {
      if (count != 0) out += to;
      if (count > 0) --count;
      out += character;
    }
    if (count != 0) out += to;
    return out;
  }
  size_t at = 0;
  for (; count != 0; --count) {
    const size_t next = text.find(from, at);
    if (next == std::string_view::npos) break;
    out.append(text.substr(at, next - at)).append(to);
    at = next + from.size();
    if (static_cast<int64_t>(out.size()) > kTextBytesMax) raise("the string is too long");
  }
  out += text.substr(at);
  return out;
}

std::string_view stripped(std::string_view text, const std::string* set, bool left, bool right) {
  if (set == nullptr) {
    if (left) text = python_lstrip(text);
    return right ? python_rstrip(text) : text;
  }
  const std::vector<std::string_view> goes = characters(*set);
  const std::vector<std::string_view> all = characters(text);
  const auto is_in = [&](std::string_view one) {
    return std::find(goes.begin(), goes.end(), one) != goes.end();
  };
  size_t first = 0;
  size_t last = all.size();
  while (left && first < last && is_in(all[first])) ++first;
  while (right && last > first && is_in(all[last - 1])) --last;
  if (first == last) return {};
  const char* const begin = all[first].data();
  return {begin, static_cast<size_t>(all[last - 1].data() + all[last - 1].size() - begin)};
}

namespace {

std::string padded(std::string text, std::string_view flags, size_t width) {
  const size_t length = static_cast<size_t>(length_of(Value(text)));
  if (length >= width) return text;
  const std::string space(width - length, ' ');
  return flags.find('-') != std::string_view::npos ? text + space : space + text;
}

std::string converted(char letter, std::string_view flags, size_t width, int precision, const Value& value) {
  if (letter == 's') return padded(to_text(value), flags, width);
  if (letter == 'r') {
    std::string out;
    append_repr(out, value);
    return padded(std::move(out), flags, width);
  }
  if (letter == 'd' || letter == 'i') {
    if (value.is(Kind::big_integer)) return padded(value.big_integer().digits, flags, width);
    const int64_t number = value.is(Kind::real) ? static_cast<int64_t>(value.real()) : value.integer("%d");
    char buffer[160];
    const bool zero = flags.find('0') != std::string_view::npos && flags.find('-') == std::string_view::npos;
    std::snprintf(buffer, sizeof buffer, zero ? "%0*lld" : "%*lld", static_cast<int>(width),
                  static_cast<long long>(number));
    return flags.find('-') != std::string_view::npos ? padded(std::to_string(number), flags, width) : buffer;
  }
  if (letter == 'f') {
    char buffer[512];
    std::snprintf(buffer, sizeof buffer, "%.*f", precision < 0 ? 6 : precision, value.number("%f"));
    return padded(buffer, flags, width);
  }
  raise("the conversion %", std::string(1, letter), " is not supported; there are s, r, d, i, f and %");
}

}  // namespace

std::string formatted(std::string_view text, const Value& arguments) {
  std::vector<Value> values;
  if (arguments.is(Kind::sequence) && arguments.sequence().is_tuple) {
    values = arguments.sequence().items;
  } else {
    values.push_back(arguments);
  }
  std::string out;
  size_t next = 0;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '%') {
      out += text[at++];
      continue;
    }
    size_t in = at + 1;
    while (in < text.size() && (text[in] == '-' || text[in] == '0')) ++in;
    const std::string_view flags = text.substr(at + 1, in - at - 1);
    size_t width = 0;
    for (; in < text.size() && text[in] >= '0' && text[in] <= '9'; ++in) {
      width = std::min<size_t>(100, width * 10 + static_cast<size_t>(text[in] - '0'));
    }
    int precision = -1;
    if (in < text.size() && text[in] == '.') {
      precision = 0;
      for (++in; in < text.size() && text[in] >= '0' && text[in] <= '9'; ++in) {
        precision = std::min(100, precision * 10 + (text[in] - '0'));
      }
    }
    if (in >= text.size()) raise("incomplete format");
    at = in + 1;
    if (text[in] == '%') {
      out += '%';
      continue;
    }
    if (next >= values.size()) raise("not enough arguments for format string");
    out += converted(text[in], flags, width, precision, values[next++]);
  }
  // As in Python: what can be looked up by key may be left unused.
  const bool is_tuple = arguments.is(Kind::sequence) && arguments.sequence().is_tuple;
  const bool is_mapping =
      arguments.is(Kind::dict) || arguments.is(Kind::undefined) || arguments.is(Kind::sequence);
  if (next < values.size() && (is_tuple || !is_mapping))
    raise("not all arguments converted during string formatting");
  return out;
}

}  // namespace glint::jinja
