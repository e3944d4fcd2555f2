// tojson: json.dumps with the options that Hugging Face's filter takes.
#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/python_json.h"

namespace glint::jinja {

namespace {

struct Style {
  bool ascii = false;
  bool sorted = false;
  bool multiline = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

void append_unicode_escape(std::string& out, char32_t code) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kHex[(code >> shift) & 15U];
}

void append_string(std::string& out, std::string_view text, bool ascii) {
  std::string escaped;
  append_json_escaped(escaped, text);
  out += '"';
  if (!ascii) {
    out += escaped;
  } else {
    for (size_t at = 0; at < escaped.size();) {
      const Utf8Step step = utf8_step(escaped, at);
      if (step.code < 0x7F) {
        out += escaped[at];
      } else if (step.code < 0x10000) {
        append_unicode_escape(out, step.code);
      } else {
        append_unicode_escape(out, 0xD800 + ((step.code - 0x10000) >> 10U));
        append_unicode_escape(out, 0xDC00 + ((step.code - 0x10000) & 0x3FFU));
      }
      at += step.bytes;
    }
  }
  out += '"';
}

class Writer {
 public:
  explicit Writer(Style style) : style_(std::move(style)) {}

  void write(std::string& out, const Value& value) {
    switch (value.kind()) {
      case Kind::none:
        out += "null";
        break;
      case Kind::boolean:
        out += value.boolean() ? "true" : "false";
        break;
      case Kind::integer:
      case Kind::big_integer:
      case Kind::real:
        append_text(out, value);
        break;
      case Kind::text:
        append_string(out, value.text(), style_.ascii);
        break;
      case Kind::sequence:
        list(out, value.sequence().items);
        break;
      case Kind::dict:
        dict(out, value.dict());
        break;
      default:
        need_defined(value);
        raise("Object of type ", type_name(value), " is not JSON serializable");
    }
  }

 private:
  void line(std::string& out) const {
    if (!style_.multiline) return;
    out += '\n';
    for (int i = 0; i < depth_; ++i) out += style_.indent;
  }

  void list(std::string& out, const std::vector<Value>& items) {
    if (items.empty()) {
      out += "[]";
      return;
    }
    out += '[';
    ++depth_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      line(out);
      write(out, items[i]);
    }
    --depth_;
    line(out);
    out += ']';
  }

  static std::string key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::text:
        return key.text();
      case Kind::none:
        return "null";
      case Kind::boolean:
        return key.boolean() ? "true" : "false";
      case Kind::integer:
      case Kind::big_integer:
      case Kind::real:
        return to_text(key);
      default:
        raise("keys must be str, int, float, bool or None, not ", type_name(key));
    }
  }

  void dict(std::string& out, const Dict& dict) {
    if (dict.entries.empty()) {
      out += "{}";
      return;
    }
    std::vector<std::pair<Value, Value>> entries = dict.entries;
    if (style_.sorted) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto& a, const auto& b) { return less(a.first, b.first); });
    }
    out += '{';
    ++depth_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      line(out);
      append_string(out, key_text(entries[i].first), style_.ascii);
      out += style_.key_separator;
      write(out, entries[i].second);
    }
    --depth_;
    line(out);
    out += '}';
  }

  Style style_;
  int depth_ = 0;
};

}  // namespace

std::string to_json(const Value& value, const Arguments& options) {
  options.check("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  Style style;
  if (const Value* ascii = options.find(0, "ensure_ascii")) style.ascii = is_true(*ascii);
  if (const Value* indent = options.find(1, "indent"); indent != nullptr && !indent->is(Kind::none)) {
    style.multiline = true;
    style.item_separator.assign(1, ',');
    if (indent->is(Kind::text)) {
      style.indent = indent->text();
    } else {
      style.indent.assign(static_cast<size_t>(std::clamp<int64_t>(indent->integer("indent"), 0, 100)), ' ');
    }
  }
  if (const Value* pair = options.find(2, "separators"); pair != nullptr && !pair->is(Kind::none)) {
    const std::vector<Value> items = items_of(*pair);
    if (items.size() != 2) raise("separators must be two strings");
    style.item_separator = items[0].text("a separator");
    style.key_separator = items[1].text("a separator");
  }
  if (const Value* sorted = options.find(3, "sort_keys")) style.sorted = is_true(*sorted);
  std::string out;
  Writer(std::move(style)).write(out, value);
  return out;
}

}  // namespace glint::jinja
