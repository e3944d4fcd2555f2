#include "text/grammar/grammar_limits.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/error.h"

namespace glint {

namespace {

constexpr size_t kPrintedBytesMax = size_t{1} << 20;
constexpr int64_t kFull = 2 * kSchemaPositionsMax;

/// {n}, {n,} or {n,m} at the beginning of `text`: its larger count; 0 if it is none. `bytes`: its length.
int64_t repetition(std::string_view text, size_t& bytes) {
  bytes = 0;
  if (!text.starts_with('{')) return 0;
  const size_t end = text.find('}');
  if (end == std::string_view::npos || end < 2) return 0;
  int64_t largest = 0;
  std::string_view inner = text.substr(1, end - 1);
  while (!inner.empty()) {
    const size_t comma = std::min(inner.find(','), inner.size());
    std::string_view number = inner.substr(0, comma);
    while (!number.empty() && number.front() == ' ') number.remove_prefix(1);
    while (!number.empty() && number.back() == ' ') number.remove_suffix(1);
    if (!number.empty()) {
      if (number.find_first_not_of("0123456789") != std::string_view::npos) return 0;
      int64_t value = kFull;
      if (number.size() < 10) std::from_chars(number.data(), number.data() + number.size(), value);
      largest = std::max(largest, value);
    }
    inner.remove_prefix(std::min(comma + 1, inner.size()));
  }
  bytes = end + 1;
  return largest;
}

/// Behind the class or string that begins at `at` and ends with `close`.
size_t skip_enclosed(std::string_view text, size_t at, char close) {
  ++at;
  while (at < text.size() && text[at] != close) at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

}  // namespace

namespace {

/// A class that most characters belong to, or that holds many letters.
bool is_wide(std::string_view element) {
  return element.starts_with("[^") || element == "." || element.find("\\w") != std::string_view::npos ||
         element.find("\\W") != std::string_view::npos || element.find("\\S") != std::string_view::npos ||
         element.find("\\D") != std::string_view::npos || element.find("a-z") != std::string_view::npos ||
         element.find("A-Z") != std::string_view::npos || element.find("\\p") != std::string_view::npos;
}

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.';
}

/// What counts nothing.
bool is_mark(char c, bool is_regex) {
  const std::string_view marks = is_regex ? "*+?|" : "*+?|:= \t\n\r";
  return marks.find(c) != std::string_view::npos;
}

/// One element of a pattern: its end, and what it counts.
struct Element {
  size_t end;
  int64_t positions;
};
Element element_at(std::string_view pattern, size_t at, bool is_regex) {
  const char c = pattern[at];
  size_t end = at + 1;
  if (c == '\\' && is_regex) {
    end = at + 2;
  } else if (c == '[') {
    end = skip_enclosed(pattern, at, ']');
  } else if (c == '"' && !is_regex) {
    end = skip_enclosed(pattern, at, '"');
    return {end, static_cast<int64_t>(end - at)};
  } else if (!is_regex && is_name(c)) {
    while (end < pattern.size() && is_name(pattern[end])) ++end;
    return {end, kRulePosition};
  }
  return {end, is_wide(pattern.substr(at, end - at)) ? kWidePosition : 1};
}

}  // namespace

int64_t count_positions(std::string_view pattern, bool is_regex) {
  std::vector<int64_t> sums = {0};  // of the groups that are open
  int64_t last = 0;                 // of the element before
  for (size_t at = 0; at < pattern.size();) {
    size_t bytes = 0;
    if (const int64_t times = repetition(pattern.substr(at), bytes); bytes > 0) {
      const int64_t grown = std::min(kFull, last * std::max<int64_t>(times, 1));
      sums.back() = std::min(kFull, sums.back() + grown - last);
      last = grown;
      at += bytes;
      continue;
    }
    const char c = pattern[at];
    if (is_mark(c, is_regex)) {
      ++at;
      continue;
    }
    if (c == '(') {
      sums.push_back(0);
      ++at;
      continue;
    }
    Element element{at + 1, 1};
    if (c == ')' && sums.size() > 1) {
      element.positions = sums.back();
      sums.pop_back();
    } else {
      element = element_at(pattern, at, is_regex);
    }
    last = element.positions;
    sums.back() = std::min(kFull, sums.back() + last);
    at = std::min(element.end, pattern.size());
  }
  int64_t sum = 0;
  for (const int64_t part : sums) sum = std::min(kFull, sum + part);
  return sum;
}

namespace {

void check_positions(std::string_view pattern, bool is_regex, const char* what,
                     int64_t most = kGrammarPositionsMax) {
  if (count_positions(pattern, is_regex) <= most) return;
  fail(ErrorKind::bad_input, what, " is too large: with its repetitions written out it has more than ", most,
       " positions (a wide class such as [^x] or \\w counts ", kWidePosition,
       "); use smaller counts, fewer values or fewer parts");
}

}  // namespace

void check_regex_text(std::string_view regex) {
  if (regex.size() > kRegexBytesMax) {
    fail(ErrorKind::bad_input, "the regular expression has ", regex.size(), " bytes, at most ",
         kRegexBytesMax, " are allowed");
  }
  check_positions(regex, true, "the regular expression");
}

void check_grammar_text(std::string_view ebnf) {
  if (ebnf.size() > kGrammarBytesMax) {
    fail(ErrorKind::bad_input, "the grammar has ", ebnf.size(), " bytes, at most ", kGrammarBytesMax,
         " are allowed");
  }
  check_positions(ebnf, false, "the grammar");
}

void check_grammar_size(const std::string& printed) {
  if (printed.size() > kPrintedBytesMax) {
    fail(ErrorKind::bad_input, "the grammar is too large: its rules have ", printed.size(),
         " bytes, at most ", kPrintedBytesMax, " are allowed");
  }
  check_positions(printed, false, "the grammar", kSchemaPositionsMax);
}

namespace {

constexpr std::string_view kLoose = R"([^\"\\\r\n])";  // xgrammar's characters of a bounded string
constexpr std::string_view kProper = R"([^\"\\\x00-\x1f\ud800-\udfff])";  // JSON's, escapes left out
constexpr int64_t kWrittenOutMax = 4;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// The library prints a character of two hexadecimal digits as \\xHH, but reads as many digits as follow.
std::string with_fixed_escapes(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    out += text[at];
    if (text[at] != '\\' || at + 1 >= text.size()) continue;
    const bool is_hex = text[at + 1] == 'x' && at + 3 < text.size();
    out += is_hex ? std::string("u00") : std::string(1, text[at + 1]);
    ++at;
  }
  return out;
}

constexpr std::string_view kCharacter =
    "json_character";  // rules of one meaning are one rule: each costs time

void define(std::string_view name, std::string_view limit, std::string_view body, std::string& new_rules) {
  const std::string rule = cat(name, limit, " ::= (", body, ")\n");
  if (new_rules.find(rule) == std::string::npos) new_rules += rule;
}

/// So many characters of a string, with a count instead of positions where they are many. The count begins
/// where the string does: behind its first characters it would not see what a token writes that reaches over
/// them.
std::string characters(int64_t least, int64_t most, std::string& new_rules) {
  const bool written_out = most >= 0 && most <= kWrittenOutMax;
  if (written_out || least > 0) define(kCharacter, "", kProper, new_rules);
  if (written_out) return cat(kCharacter, "{", least, ", ", most, "}");
  const std::string name = cat("json_characters_", least, "_", most < 0 ? "any" : std::to_string(most));
  const std::string limit = most < 0 ? "" : cat("[max_chars=", most, "]");
  const std::string first = least == 0 ? "" : cat(kCharacter, "{", least, ", ", least, "} ");
  define(name, limit, cat(first, kProper, "*"), new_rules);
  return name;
}

/// Exponents of numbers have at most three digits and stay below 300: the value is finite.
void bound_exponents(std::string& part) {
  constexpr std::string_view kBegin = "([eE] ";
  constexpr std::string_view kDigits = "_digits{1, -1})";
  for (size_t at = part.find(kBegin); at != std::string::npos; at = part.find(kBegin, at + 1)) {
    const size_t sign = part.find(' ', at + kBegin.size());
    const size_t close = part.find(')', at);
    if (sign >= close || close == std::string::npos || close + 1 < at + kDigits.size()) continue;
    if (part.compare(close + 1 - kDigits.size(), kDigits.size(), kDigits) != 0) continue;
    part.replace(sign + 1, close - sign - 1, "(([0-9]) | ([0-9] [0-9]) | ([12] [0-9] [0-9]))");
  }
}

/// What stands between the literals of `printed`, with its strings bounded.
std::string bound_part(const std::string& printed, std::string_view part, std::string& new_rules) {
  std::string text;
  size_t done = 0;
  // Every use of a rule that is one loose character: name{least, most}.
  for (size_t open = part.find('{'); open != std::string_view::npos; open = part.find('{', open + 1)) {
    size_t begin = open;
    while (begin > done && is_name(part[begin - 1])) --begin;
    const std::string rule(part.substr(begin, open - begin));
    const size_t defined = rule.empty() ? std::string::npos : printed.find(cat("\n", rule, " ::= ("));
    if (defined == std::string::npos) continue;
    const std::string line = printed.substr(defined + 1, printed.find('\n', defined + 1) - defined - 1);
    if (line.find(kLoose) == std::string::npos || line.size() > rule.size() + kLoose.size() + 12) continue;
    int64_t least = 0;
    int64_t most = 0;
    const char* const end = part.data() + part.size();
    const auto first = std::from_chars(part.data() + open + 1, end, least);
    if (first.ec != std::errc() || end - first.ptr < 3) continue;
    const auto second = std::from_chars(first.ptr + 2, end, most);
    if (second.ec != std::errc() || second.ptr == end || *second.ptr != '}') continue;
    text.append(part, done, begin - done);
    text += characters(least, most, new_rules);
    done = static_cast<size_t>(second.ptr - part.data()) + 1;
  }
  text.append(part, done);
  bound_exponents(text);
  replace_all(text, kLoose, kProper);
  replace_all(text, ", -1}", ",}");
  return text;
}

/// The end of the literal, or of what is none, that begins at `at`.
size_t end_of_part(const std::string& printed, size_t at) {
  const bool literal = printed[at] == '"';
  size_t end = literal ? at + 1 : at;
  while (end < printed.size() && printed[end] != '"') end += printed[end] == '\\' ? 2 : 1;
  return std::min(literal ? end + 1 : end, printed.size());
}

}  // namespace

std::string bound_values(const std::string& printed) {
  std::string text;
  std::string new_rules;
  for (size_t at = 0; at < printed.size();) {
    const size_t end = end_of_part(printed, at);
    const auto part = std::string_view(printed).substr(at, end - at);
    if (printed[at] == '"')
      text += part;
    else
      text += bound_part(printed, part, new_rules);
    at = end;
  }
  return with_fixed_escapes(text) + new_rules;
}

}  // namespace glint
