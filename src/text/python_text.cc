#include "text/python_text.h"

#include "base/utf8.h"

namespace glint {

bool is_python_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x1F);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

std::string_view python_lstrip(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = utf8_step(text, at);
    if (step.kind != Utf8Kind::good || !is_python_space(step.code)) break;
    at += step.bytes;
  }
  return text.substr(at);
}

std::string_view python_rstrip(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t start = end - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0U) == 0x80U) --start;
    const Utf8Step step = utf8_step(text, start);
    if (step.kind != Utf8Kind::good || start + step.bytes != end || !is_python_space(step.code)) break;
    end = start;
  }
  return text.substr(0, end);
}

std::string_view python_strip(std::string_view text) {
  return python_lstrip(python_rstrip(text));
}

bool is_blank(std::string_view text) {
  return python_lstrip(text).empty();
}

}  // namespace glint
