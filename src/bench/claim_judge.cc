#include "bench/claim_judge.h"

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode_classes.h"

namespace glint::bench {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// The characters of `text` from byte `at` on: the first one, or nothing at the end.
std::optional<char32_t> code_at(std::string_view text, size_t at) {
  if (at >= text.size()) return std::nullopt;
  return utf8_step(text, at).code;
}

std::optional<char32_t> code_before(std::string_view text, size_t at) {
  if (at == 0) return std::nullopt;
  size_t begin = at - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
  return utf8_step(text, begin).code;
}

/// \w of Python's re: letters, numbers and '_', no combining marks.
bool is_word(std::optional<char32_t> code) {
  if (!code) return false;
  const CharClass kind = UnicodeClasses::get().char_class(*code);
  return *code == U'_' || kind == CharClass::letter || kind == CharClass::number;
}

std::string_view trimmed(std::string_view text) {
  const UnicodeClasses& classes = UnicodeClasses::get();
  size_t begin = 0;
  while (begin < text.size() && classes.is_white_space(*code_at(text, begin)))
    begin += utf8_step(text, begin).bytes;
  size_t end = text.size();
  while (end > begin && classes.is_white_space(*code_before(text, end))) {
    do --end;
    while (end > begin && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U);
  }
  return text.substr(begin, end - begin);
}

/// The last number, the sign included unless it is a minus between two numbers ("7 - 3"). -1 and more digits
/// than fit: nothing.
std::optional<int64_t> last_number(std::string_view text) {
  size_t end = text.size();
  while (end > 0 && !is_digit(text[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && is_digit(text[begin - 1])) --begin;
  if (begin == end || end - begin > 18) return std::nullopt;
  const int64_t value = std::stoll(std::string(text.substr(begin, end - begin)));
  const bool minus = begin > 0 && text[begin - 1] == '-';
  return minus ? -value : value;
}

bool json_is(std::string_view text, const Json& want) {
  try {
    return parse_json(text, "the answer") == want;
  } catch (const Error&) {
    return false;
  }
}

/// As Python's str() of a JSON value that is a string or a number.
std::string plain_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : dump_json(value);
}

}  // namespace

bool holds_word(std::string_view text, std::string_view value) {
  for (size_t at = text.find(value); at != std::string_view::npos; at = text.find(value, at + 1)) {
    const auto before = code_before(text, at);
    if (!is_word(before) && before != U'.' && !is_word(code_at(text, at + value.size()))) return true;
    if (at + 1 > text.size()) break;
  }
  return trimmed(text) == value;
}

bool answer_is_right(const ClaimExample& example, const ModelAnswer& answer) {
  if (!answer.ended) return false;
  const Json& want = example.answer;
  if (example.task == "tool_call")
    return answer.call && *answer.call == want && trimmed(answer.content).empty();
  if (answer.call) return false;
  if (example.task == "arithmetic") {
    const auto number = last_number(answer.content);
    return number && want == *number;
  }
  if (example.task == "copy")
    return want.is_string() && trimmed(answer.content) == want.get_ref<const std::string&>();
  if (example.task == "json") return json_is(answer.content, want);
  return holds_word(answer.content, plain_text(want));
}

}  // namespace glint::bench
