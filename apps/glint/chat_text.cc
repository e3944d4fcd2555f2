#include "chat_text.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/utf8.h"

namespace glint {

namespace {

std::string as_number(char32_t code) {
  std::array<char, 16> text;
  const int bytes = std::snprintf(text.data(), text.size(), "<%02X>", static_cast<unsigned>(code));
  return {text.data(), static_cast<size_t>(bytes)};
}

/// Characters that change the order or the place of others: marks, embeddings, overrides and isolates, and
/// the line and paragraph separators.
bool reorders(char32_t code) {
  return code == 0x061C || code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::string harmless_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    const char32_t code = step.code;
    if (step.kind != Utf8Kind::good) {
      out += kReplacementUtf8;
    } else if (code < 0x20 && code != '\n' && code != '\t') {
      out += '^';
      out += static_cast<char>(code + '@');
    } else if (code == 0x7F) {
      out += "^?";
    } else if ((code >= 0x80 && code < 0xA0) || reorders(code)) {
      out += as_number(code);
    } else {
      out.append(text.substr(at, step.bytes));
    }
    at += step.bytes;
  }
  return out;
}

std::string harmless_line(std::string_view text) {
  std::string line = harmless_text(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return line;
}

}  // namespace glint
