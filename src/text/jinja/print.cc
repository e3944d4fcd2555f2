// str() and repr() of values.
#include <cstdio>

#include "base/utf8.h"
#include "text/jinja/value.h"
#include "text/python_json.h"

namespace glint::jinja {

namespace {

/// Characters that Python's repr escapes: controls, and the separators and format characters of Unicode. (The
/// rarer ones, private and unassigned code points, print as they are.)
bool is_escaped(char32_t code) {
  if (code < 0x20 || (code >= 0x7F && code <= 0xA0) || code == 0xAD) return true;
  return (code >= 0x2000 && code <= 0x200F) || (code >= 0x2028 && code <= 0x202F) ||
         (code >= 0x205F && code <= 0x206F) || code == 0x1680 || code == 0x3000 || code == 0xFEFF;
}

void append_text_repr(std::string& out, std::string_view text) {
  const bool use_double =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = use_double ? '"' : '\'';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    const std::string_view bytes = text.substr(at, step.bytes == 0 ? 1 : step.bytes);
    at += bytes.size();
    char escape[16];
    if (bytes[0] == quote || bytes[0] == '\\') {
      out += '\\';
      out += bytes[0];
    } else if (bytes[0] == '\n') {
      out += "\\n";
    } else if (bytes[0] == '\r') {
      out += "\\r";
    } else if (bytes[0] == '\t') {
      out += "\\t";
    } else if (is_escaped(step.code)) {
      std::snprintf(escape, sizeof escape, step.code < 0x100 ? "\\x%02x" : "\\u%04x",
                    static_cast<unsigned>(step.code));
      out += escape;
    } else {
      out += bytes;
    }
  }
  out += quote;
}

void append_sequence(std::string& out, const Sequence& sequence) {
  out += sequence.is_tuple ? '(' : '[';
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, sequence.items[i]);
  }
  if (sequence.is_tuple && sequence.items.size() == 1) out += ',';
  out += sequence.is_tuple ? ')' : ']';
}

void append_dict(std::string& out, const Dict& dict) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!first) out += ", ";
    first = false;
    append_repr(out, key);
    out += ": ";
    append_repr(out, value);
  }
  out += '}';
}

}  // namespace

void append_repr(std::string& out, const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      out += "Undefined";
      break;
    case Kind::none:
      out += "None";
      break;
    case Kind::boolean:
      out += value.boolean() ? "True" : "False";
      break;
    case Kind::integer:
      out += std::to_string(value.integer(""));
      break;
    case Kind::big_integer:
      out += value.big_integer().digits;
      break;
    case Kind::real:
      out += python_float_repr(value.real());
      break;
    case Kind::text:
      append_text_repr(out, value.text());
      break;
    case Kind::sequence:
      append_sequence(out, value.sequence());
      break;
    case Kind::dict:
      append_dict(out, value.dict());
      break;
    case Kind::function:
      out += "<function " + value.function()->name() + ">";
      break;
    case Kind::object:
      out += value.object()->repr();
      break;
  }
}

void append_text(std::string& out, const Value& value) {
  if (value.is(Kind::text)) {
    out += value.text();
  } else if (!value.is(Kind::undefined)) {
    append_repr(out, value);
  }
}

std::string to_text(const Value& value) {
  std::string out;
  append_text(out, value);
  return out;
}

}  // namespace glint::jinja
