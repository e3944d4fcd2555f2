#include "text/grammar/grammar_limits.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/error.h"

namespace glint {

namespace {

constexpr size_t kPrintedBytesMax = size_t{1} << 20;
constexpr int64_t kFull = 2 * kGrammarPositionsMax;

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

void check_positions(std::string_view pattern, bool is_regex, const char* what) {
  if (count_positions(pattern, is_regex) <= kGrammarPositionsMax) return;
  fail(ErrorKind::bad_input, what, " is too large: with its repetitions written out it has more than ",
       kGrammarPositionsMax, " positions (a wide class such as [^x] or \\w counts ", kWidePosition,
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
  check_positions(printed, false, "the grammar");
}

namespace {

constexpr std::string_view kLoose = R"([^\"\\\r\n])";        // xgrammar's characters of a bounded string
constexpr std::string_view kProper = R"([^\"\\\x00-\x1f])";  // JSON's, escapes left out
constexpr int64_t kWrittenOutMax = 32;

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

/// `rule{least, most}` with a count instead of positions.
std::string counted(const std::string& rule, int64_t least, int64_t most, std::string& new_rules) {
  const std::string rest = cat(rule, "_more_", most < 0 ? 0 : most - least, most < 0 ? "_u" : "");
  const std::string limit = most < 0 ? "" : cat("[max_chars=", most - least, "]");
  const std::string body = cat(rest, limit, " ::= (", kProper, "*)\n");
  if (new_rules.find(body) == std::string::npos) new_rules += body;
  return least == 0 ? rest : cat(rule, "{", least, ", ", least, "} ", rest);
}

}  // namespace

std::string bound_strings(const std::string& printed) {
  if (printed.find(kLoose) == std::string::npos) return printed;
  std::string text;
  std::string new_rules;
  size_t done = 0;
  // Every use of a rule that is one loose character: name{least, most}.
  for (size_t open = printed.find('{'); open != std::string::npos; open = printed.find('{', open + 1)) {
    size_t begin = open;
    while (begin > done && is_name(printed[begin - 1])) --begin;
    const std::string rule = printed.substr(begin, open - begin);
    const size_t defined = rule.empty() ? std::string::npos : printed.find(cat("\n", rule, " ::= ("));
    if (defined == std::string::npos) continue;
    const std::string line = printed.substr(defined + 1, printed.find('\n', defined + 1) - defined - 1);
    if (line.find(kLoose) == std::string::npos || line.size() > rule.size() + kLoose.size() + 12) continue;
    int64_t least = 0;
    int64_t most = 0;
    const char* const end = printed.data() + printed.size();
    const auto first = std::from_chars(printed.data() + open + 1, end, least);
    if (first.ec != std::errc() || end - first.ptr < 3) continue;
    const auto second = std::from_chars(first.ptr + 2, end, most);
    if (second.ec != std::errc() || second.ptr == end || *second.ptr != '}') continue;
    if (most >= 0 && most <= kWrittenOutMax) continue;
    text.append(printed, done, begin - done);
    text += counted(rule, least, most, new_rules);
    done = static_cast<size_t>(second.ptr - printed.data()) + 1;
  }
  text.append(printed, done);
  text = with_fixed_escapes(text);
  replace_all(text, kLoose, kProper);
  replace_all(text, ", -1}", ",}");
  return text + new_rules;
}

namespace {

/// What Python's int() takes for a digit beside 0-9, as ranges of a class.
constexpr std::string_view kOtherDigits =
    R"(\u0660-\u0669\u06f0-\u06f9\u07c0-\u07c9\u0966-\u096f\u09e6-\u09ef\u0a66-\u0a6f)"
    R"(\u0ae6-\u0aef\u0b66-\u0b6f\u0be6-\u0bef\u0c66-\u0c6f\u0ce6-\u0cef\u0d66-\u0d6f)"
    R"(\u0de6-\u0def\u0e50-\u0e59\u0ed0-\u0ed9\u0f20-\u0f29\u1040-\u1049\u1090-\u1099)"
    R"(\u17e0-\u17e9\u1810-\u1819\u1946-\u194f\u19d0-\u19d9\u1a80-\u1a89\u1a90-\u1a99)"
    R"(\u1b50-\u1b59\u1bb0-\u1bb9\u1c40-\u1c49\u1c50-\u1c59\ua620-\ua629\ua8d0-\ua8d9)"
    R"(\ua900-\ua909\ua9d0-\ua9d9\ua9f0-\ua9f9\uaa50-\uaa59\uabf0-\uabf9\uff10-\uff19)"
    R"(\U000104a0-\U000104a9\U00010d30-\U00010d39\U00010d40-\U00010d49\U00011066-\U0001106f)"
    R"(\U000110f0-\U000110f9\U00011136-\U0001113f\U000111d0-\U000111d9\U000112f0-\U000112f9)"
    R"(\U00011450-\U00011459\U000114d0-\U000114d9\U00011650-\U00011659\U000116c0-\U000116c9)"
    R"(\U000116d0-\U000116e3\U00011730-\U00011739\U000118e0-\U000118e9\U00011950-\U00011959)"
    R"(\U00011bf0-\U00011bf9\U00011c50-\U00011c59\U00011d50-\U00011d59\U00011da0-\U00011da9)"
    R"(\U00011de0-\U00011de9\U00011f50-\U00011f59\U00016a60-\U00016a69\U00016ac0-\U00016ac9)"
    R"(\U00016b50-\U00016b59\U00016d70-\U00016d79\U0001ccf0-\U0001ccf9\U0001d7ce-\U0001d7ff)"
    R"(\U0001e140-\U0001e149\U0001e2f0-\U0001e2f9\U0001e4f0-\U0001e4f9\U0001e5f1-\U0001e5fa)"
    R"(\U0001e950-\U0001e959\U0001fbf0-\U0001fbf9)";

}  // namespace

std::string plain_text_grammar() {
  // A text is a string for sure if it is empty, or begins with a character that begins no JSON value, no
  // number and no blank; or spells something else than a word of JSON; or has what no number can have. See
  // text/argument_coercion.h for what is read as something else.
  const std::string blank =
      R"( \t\n\r\f\v\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000)";
  std::string rules =
      R"(root ::= "" | [^ODD\{\[\"0-9+\-.tTfFnN] any | number | minus | dot | word_t | word_f | word_n
any ::= [^]*
number ::= [0-9] [0-9]* number_end | [0-9] [0-9]* "." [0-9]* "." any
number_end ::= [^0-9_.eE+\-ODD] any | "-" [0-9] any | " " [ ]* [^0-9_.eE+\-ODD] any
minus ::= "-" [^0-9_.iInNODD] any
dot ::= "." [^0-9_eEODD] any | "." [eE] [^0-9_+\-ODD] any
)";
  struct Word {
    const char* name;
    const char* letters;
  };
  for (const Word& word : {Word{"word_t", "true"}, Word{"word_f", "false"}, Word{"word_n", "null"}}) {
    const std::string_view letters = word.letters;
    for (size_t i = 0; i < letters.size(); ++i) {
      const char low = letters[i];
      const auto high = static_cast<char>(low - 'a' + 'A');
      const std::string own = i == 0 ? std::string(word.name) : cat(word.name, "_", i);
      rules += cat(own, " ::= [", low, high, "] ", word.name, "_", i + 1);
      if (i > 0) rules += cat(" | \"\" | [^", low, high, "] any");
      rules += "\n";
    }
    rules += cat(word.name, "_", letters.size(), " ::= [BLANK]* [^BLANK] any\n");
  }
  replace_all(rules, "ODD", blank + std::string(kOtherDigits));
  replace_all(rules, "BLANK", blank);
  return rules;
}

}  // namespace glint
