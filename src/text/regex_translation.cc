#include "text/regex_translation.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode_classes.h"

namespace glint {

namespace {

constexpr char32_t kLastCode = 0x10FFFF;
constexpr char32_t kSurrogatesFirst = 0xD800;
constexpr char32_t kSurrogatesLast = 0xDFFF;

bool is_surrogate(char32_t code) {
  return code >= kSurrogatesFirst && code <= kSurrogatesLast;
}

/// What `set` holds and `other` does not. Ranges never begin or end with a surrogate.
CodePointSet difference(const CodePointSet& set, const CodePointSet& other) {
  CodePointSet out;
  const auto add = [&out](char32_t first, char32_t last) {
    if (is_surrogate(first)) first = kSurrogatesLast + 1;
    if (is_surrogate(last)) last = kSurrogatesFirst - 1;
    if (first <= last) out.push_back({first, last});
  };
  auto cut = other.begin();
  for (const CodePointRange& range : set) {
    char32_t first = range.first;
    while (cut != other.end() && cut->last < first) ++cut;
    for (auto hole = cut; hole != other.end() && hole->first <= range.last; ++hole) {
      if (hole->first > first) add(first, hole->first - 1);
      first = hole->last + 1;
    }
    if (first <= range.last) add(first, range.last);
  }
  return out;
}

std::string code_text(char32_t code) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, "\\x{%X}", static_cast<unsigned>(code));
  return buffer;
}

std::string set_text(const CodePointSet& set) {
  std::string text;
  for (const CodePointRange& range : set) {
    text += code_text(range.first);
    if (range.last != range.first) text.append(1, '-').append(code_text(range.last));
  }
  return text;
}

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view what, const PcreMembers& pcre_members)
      : pattern_(pattern), what_(what), pcre_members_(pcre_members) {}

  std::string run() {
    while (at_ < pattern_.size()) item();
    if (!groups_.empty()) refuse("a group without its end");
    return std::move(out_);
  }

 private:
  /// A class as it is written inside [].
  struct NamedClass {
    std::string members;  // PCRE2's class and what it lacks, or all ranges
    std::string others;   // all ranges of the complement
  };
  struct Group {
    size_t start;       // in out_
    bool ignores_case;  // of the text around the group
  };

  [[noreturn]] void refuse(const std::string& construct) const {
    fail(ErrorKind::unsupported, what_, ": pre_tokenizer pattern: ", construct, " at byte ", at_,
         " of the regex is not implemented");
  }
  [[nodiscard]] bool looking_at(std::string_view text) const {
    return pattern_.substr(at_).starts_with(text);
  }
  [[nodiscard]] char peek(size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }

  void item() {
    switch (peek()) {
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '|':
        out_ += pattern_[at_++];
        last_letter_ = '\0';
        return;
      case '[':
        return atom([this] { char_class(); });
      case '.':
        return atom([this] {
          out_ += "[^\\n]";
          ++at_;
        });
      case '^':
        return anchor(R"((?:\A|(?<=\n)(?!\z)))");
      case '$':
        return anchor(R"((?:(?=\n)|(?<!\n)\z))");
      case '*':
      case '+':
      case '?':
        refuse(cat("the quantifier ", peek(), " without anything to repeat"));
      default:
        return atom([this] { literal_or_escape(); });
    }
  }

  /// In Ruby's dialect ^ and $ belong to lines, and a line break at the very end begins no further line.
  void anchor(std::string_view text) {
    out_ += text;
    ++at_;
    last_letter_ = '\0';
    if (peek() == '*' || peek() == '+' || peek() == '?' || take_interval())
      refuse("a quantifier of an anchor");
  }

  /// One repeatable thing and its quantifier.
  template <class Write>
  void atom(const Write& write) {
    const size_t start = out_.size();
    write();
    quantifier(start);
  }

  void open_group() {
    static constexpr std::string_view kKinds[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
    groups_.push_back({out_.size(), ignores_case_});
    last_letter_ = '\0';
    if (peek(1) != '?' && peek(1) != '*') {
      out_ += "(?:";
      ++at_;
      return;
    }
    for (const std::string_view kind : kKinds) {
      if (!looking_at(kind)) continue;
      if (kind == "(?i:") ignores_case_ = true;
      out_ += kind;
      at_ += kind.size();
      return;
    }
    refuse(cat("the group ", pattern_.substr(at_, 4), "..."));
  }

  void close_group() {
    if (groups_.empty()) refuse("a ) without its (");
    const Group group = groups_.back();
    groups_.pop_back();
    ignores_case_ = group.ignores_case;
    last_letter_ = '\0';
    out_ += pattern_[at_++];
    quantifier(group.start);
  }

  void quantifier(size_t atom_start) {
    const char first = peek();
    if (first == '*' || first == '+' || first == '?') {
      out_ += first;
      ++at_;
      if (peek() == '+' || peek() == '?') out_ += pattern_[at_++];
    } else if (const std::optional<std::string> interval = take_interval()) {
      out_ += *interval;
      if (peek() == '?') refuse("the interval {}?");
      if (peek() == '+') {  // Ruby: the repeated interval repeats, it is not possessive
        out_.insert(atom_start, "(?:");
        out_ += ")+";
        ++at_;
      }
    } else {
      return;
    }
    last_letter_ = '\0';
    if (peek() == '*' || peek() == '+' || peek() == '?' || take_interval())
      refuse("a quantifier of a quantifier");
  }

  /// {n}, {n,}, {n,m} or {,m} as PCRE2 writes it; nothing if no such thing stands here.
  std::optional<std::string> take_interval() {
    if (peek() != '{') return std::nullopt;
    const size_t close = pattern_.find('}', at_);
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view inside = pattern_.substr(at_ + 1, close - at_ - 1);
    const size_t comma = inside.find(',');
    const std::string_view low = inside.substr(0, comma);
    const std::string_view high = comma == std::string_view::npos ? low : inside.substr(comma + 1);
    const auto digits = [](std::string_view text) {
      return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    if (!digits(low) || !digits(high) || (low.empty() && high.empty())) return std::nullopt;
    if (low.size() > 4 || high.size() > 4) refuse("an interval above 9999");
    if (!low.empty() && !high.empty() && std::stoi(std::string(low)) > std::stoi(std::string(high)))
      refuse("an interval {n,m} with n above m");
    at_ = close + 1;
    return comma == std::string_view::npos ? cat("{", low, "}")
                                           : cat("{", low.empty() ? "0" : low, ",", high, "}");
  }

  void literal_or_escape() {
    if (peek() == '\\') {
      escape(false);
      return;
    }
    const char32_t code = take_character();
    note_literal(code);
    write_literal(code);
  }

  char32_t take_character() {
    const Utf8Step step = utf8_step(pattern_, at_);
    if (step.kind != Utf8Kind::good) refuse("invalid UTF-8");
    at_ += step.bytes;
    return step.code;
  }

  /// Oniguruma folds some pairs of letters into one character (U+FB05 for st); PCRE2 does not.
  void note_literal(char32_t code) {
    if (!ignores_case_) return;
    if (code >= 0x80) refuse("a character outside ASCII that ignores case");
    const char letter = static_cast<char>(std::tolower(static_cast<int>(code)));
    const std::string pair{last_letter_, letter};
    for (const char* folded : {"ss", "st", "ff", "fi", "fl"}) {
      if (pair == folded) refuse(cat("\"", pair, "\" that ignores case"));
    }
    last_letter_ = letter;
  }

  void write_literal(char32_t code) {
    if (code < 0x80 && std::isalnum(static_cast<int>(code)) == 0) {
      out_ += code_text(code);
    } else {
      append_utf8(out_, code);
    }
  }

  /// The escape at `at_`. Returns the character that it stands for, nothing for a class.
  std::optional<char32_t> escape(bool in_class) {
    static constexpr std::string_view kControls = "tnrfvae";
    static constexpr std::string_view kControlCodes = "\t\n\r\f\v\a\x1B";
    const char kind = peek(1);
    if (const size_t control = kControls.find(kind); kind != '\0' && control != std::string_view::npos) {
      return take_code(2, static_cast<unsigned char>(kControlCodes[control]));
    }
    switch (kind) {
      case 'p':
      case 'P':
        property(in_class);
        return std::nullopt;
      case 's':
        named_class("White_Space", "\\s", false, in_class);
        at_ += 2;
        return std::nullopt;
      case 'S':
        named_class("White_Space", "\\s", true, in_class);
        at_ += 2;
        return std::nullopt;
      case 'd':
        named_class("Nd", "\\p{Nd}", false, in_class);
        at_ += 2;
        return std::nullopt;
      case 'D':
        named_class("Nd", "\\p{Nd}", true, in_class);
        at_ += 2;
        return std::nullopt;
      case 'u':
        return hexadecimal(2, 4);
      case 'x':
        return peek(2) == '{' ? braced_hexadecimal() : hexadecimal(2, 2);
      default:
        break;
    }
    const auto byte = static_cast<unsigned char>(kind);
    if (kind == '\0' || byte >= 0x80 || std::isalnum(byte) != 0)
      refuse(cat("the escape \\", std::string(1, kind)));
    return take_code(2, byte);
  }

  std::optional<char32_t> take_code(size_t length, char32_t code) {
    note_literal(code);
    at_ += length;
    out_ += code_text(code);
    return code;
  }

  std::optional<char32_t> hexadecimal(size_t skip, size_t digits) {
    const std::string text(pattern_.substr(std::min(at_ + skip, pattern_.size()), digits));
    const bool good = text.size() == digits && std::all_of(text.begin(), text.end(), [](unsigned char c) {
                        return std::isxdigit(c) != 0;
                      });
    if (!good) refuse("a hexadecimal escape with too few digits");
    const auto code = static_cast<char32_t>(std::stoul(text, nullptr, 16));
    if (is_surrogate(code) || (digits == 2 && code >= 0x80))
      refuse(cat("the escape ", pattern_.substr(at_, skip + digits)));
    return take_code(skip + digits, code);
  }

  std::optional<char32_t> braced_hexadecimal() {
    const size_t close = pattern_.find('}', at_);
    if (close == std::string_view::npos || close == at_ + 3 || close > at_ + 9)
      refuse("\\x{...} that is no code point");
    const std::string text(pattern_.substr(at_ + 3, close - at_ - 3));
    const bool good =
        std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
    const auto code = good ? static_cast<char32_t>(std::stoul(text, nullptr, 16)) : kLastCode + 1;
    if (code > kLastCode || is_surrogate(code)) refuse("\\x{...} that is no code point");
    return take_code(close + 1 - at_, code);
  }

  void property(bool in_class) {
    const size_t close = pattern_.find('}', at_);
    if (peek(2) != '{' || close == std::string_view::npos) refuse("\\p without {...}");
    const std::string name(pattern_.substr(at_ + 3, close - at_ - 3));
    if (unicode_members(name).empty())
      refuse(cat("the property \\p{", name.substr(0, 40), "} (general categories such as L or Lu are)"));
    named_class(name, cat("\\p{", name, "}"), peek(1) == 'P', in_class);
    at_ = close + 1;
  }

  /// Writes the library's members of a class.
  void named_class(const std::string& name, const std::string& pcre_class, bool negated, bool in_class) {
    const auto [found, is_new] = classes_.try_emplace(name);
    if (is_new) found->second = resolve(name, pcre_class);
    const NamedClass& known = found->second;
    const std::string& members = negated && in_class ? known.others : known.members;
    last_letter_ = '\0';
    out_ += in_class ? members : cat(negated ? "[^" : "[", members, "]");
  }

  [[nodiscard]] NamedClass resolve(const std::string& name, const std::string& pcre_class) const {
    const CodePointSet ours = unicode_members(name);
    const CodePointSet theirs = pcre_members_(pcre_class);
    const bool widened = difference(theirs, ours).empty();
    return {widened ? pcre_class + set_text(difference(ours, theirs)) : set_text(ours),
            set_text(difference({{0, kLastCode}}, ours))};
  }

  void char_class() {
    if (ignores_case_ && looking_at("[^")) refuse("a negated class that ignores case");
    out_ += '[';
    ++at_;
    if (peek() == '^') out_ += pattern_[at_++];
    if (peek() == ']') refuse("a class that begins with ]");
    while (peek() != ']') {
      if (at_ >= pattern_.size()) refuse("a class without its end");
      class_member();
    }
    ++at_;
    out_ += ']';
    last_letter_ = '\0';
  }

  void class_member() {
    if (peek() == '[') refuse("a class inside a class");
    if (looking_at("&&")) refuse("an intersection of classes");
    const bool is_class = !class_character();
    if (peek() != '-' || peek(1) == ']' || peek(1) == '\0') return;
    if (is_class) refuse("a range that begins with a class");
    if (peek(1) == '[' || looking_at("-&&")) refuse("a class inside a class");
    out_ += '-';
    ++at_;
    if (!class_character()) refuse("a range that ends with a class");
  }

  /// One character or escape of a class. False if it stands for more than one character.
  bool class_character() {
    last_letter_ = '\0';
    if (peek() == '\\') return escape(true).has_value();
    const char32_t code = take_character();
    note_literal(code);
    write_literal(code);
    return true;
  }

  std::string_view pattern_;
  std::string_view what_;
  const PcreMembers& pcre_members_;
  size_t at_ = 0;
  std::string out_;
  std::vector<Group> groups_;
  std::map<std::string, NamedClass> classes_;  // by name
  bool ignores_case_ = false;
  char last_letter_ = '\0';  // the literal just before, where case is ignored
};

}  // namespace

std::string translate_to_pcre(std::string_view pattern, std::string_view what,
                              const PcreMembers& pcre_members) {
  return Translator(pattern, what, pcre_members).run();
}

}  // namespace glint
