#include "text/pretokenizer.h"

#include "text/unicode_classes.h"

namespace glint {

namespace {

// U+017F folds to 's'; no other letter of the contractions has a fold outside ASCII.
constexpr std::string_view kLongS = "\xC5\xBF";

struct Char {
  char32_t code;
  uint32_t bytes;
  CharClass kind;
};

/// Walks over text that is known to be valid UTF-8.
class Scanner {
 public:
  Scanner(std::string_view text, const UnicodeClasses& classes, const CharClass (&ascii)[128])
      : text_(text), classes_(classes), ascii_(ascii) {}

  /// The end of the piece that starts at `at`; the alternatives of kGlmPattern in their order.
  [[nodiscard]] size_t piece_end(size_t at) const {
    const Char first = look(at);
    const size_t next = at + first.bytes;
    if (first.code == '\'') {
      if (const size_t end = contraction_end(next); end != 0) return end;
    }
    if (first.kind == CharClass::letter) return run_end(next, CharClass::letter);
    if (first.kind == CharClass::number) return number_end(next);
    const bool line_break = first.code == '\r' || first.code == '\n';
    const bool at_end = next >= text_.size();
    const CharClass next_kind = at_end ? CharClass::white_space : look(next).kind;
    if (!line_break && next_kind == CharClass::letter) return run_end(next, CharClass::letter);
    if (first.kind == CharClass::other || (first.code == ' ' && next_kind == CharClass::other)) {
      return line_breaks_end(run_end(next, CharClass::other));
    }
    return white_space_end(at);
  }

 private:
  [[nodiscard]] Char look(size_t at) const {
    const auto byte = [this, at](size_t i) {
      return static_cast<char32_t>(static_cast<unsigned char>(text_[at + i]));
    };
    const char32_t lead = byte(0);
    if (lead < 0x80) return {lead, 1, ascii_[lead]};
    const auto tail = [&byte](size_t i) { return byte(i) & 0x3FU; };
    char32_t code;
    uint32_t bytes;
    if (lead < 0xE0) {
      code = (lead & 0x1FU) << 6 | tail(1);
      bytes = 2;
    } else if (lead < 0xF0) {
      code = (lead & 0x0FU) << 12 | tail(1) << 6 | tail(2);
      bytes = 3;
    } else {
      code = (lead & 0x07U) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3);
      bytes = 4;
    }
    return {code, bytes, classes_.char_class(code)};
  }

  [[nodiscard]] size_t run_end(size_t at, CharClass kind) const {
    while (at < text_.size()) {
      const Char c = look(at);
      if (c.kind != kind) break;
      at += c.bytes;
    }
    return at;
  }

  /// At most two more numbers after the first.
  [[nodiscard]] size_t number_end(size_t at) const {
    for (int more = 0; more < 2 && at < text_.size(); ++more) {
      const Char c = look(at);
      if (c.kind != CharClass::number) break;
      at += c.bytes;
    }
    return at;
  }

  [[nodiscard]] size_t line_breaks_end(size_t at) const {
    while (at < text_.size() && (text_[at] == '\r' || text_[at] == '\n')) ++at;
    return at;
  }

  /// A run of white space: up to its last line break; else all of it at the end of the text; else all but the
  /// last character, which goes to the next piece, unless it is the only one.
  [[nodiscard]] size_t white_space_end(size_t at) const {
    size_t end = at;
    size_t last = at;         // where the last character of the run starts
    size_t after_break = at;  // behind the last line break
    while (end < text_.size()) {
      const Char c = look(end);
      if (c.kind != CharClass::white_space) break;
      last = end;
      end += c.bytes;
      if (c.code == '\r' || c.code == '\n') after_break = end;
    }
    if (after_break > at) return after_break;
    if (end == text_.size() || last == at) return end;
    return last;
  }

  /// The end of s, t, re, ve, m, ll or d in either case at `at`; 0 if none is there.
  [[nodiscard]] size_t contraction_end(size_t at) const {
    // Setting bit 5 makes exactly the two cases of an ASCII letter equal to the small one.
    const auto lower = [this](size_t i) {
      return i < text_.size() ? static_cast<char>(text_[i] | 0x20) : '\0';
    };
    const char first = lower(at);
    const char second = lower(at + 1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 1;
    if ((first == 'r' || first == 'v') && second == 'e') return at + 2;
    if (first == 'l' && second == 'l') return at + 2;
    return text_.substr(at).starts_with(kLongS) ? at + kLongS.size() : 0;
  }

  std::string_view text_;
  const UnicodeClasses& classes_;
  const CharClass (&ascii_)[128];
};

class GlmPreTokenizer final : public PreTokenizer {
 public:
  GlmPreTokenizer() : classes_(UnicodeClasses::get()) {
    for (char32_t code = 0; code < 128; ++code) ascii_[code] = classes_.char_class(code);
  }

  void split(std::string_view text, std::vector<uint32_t>& ends) const override {
    const Scanner scanner(text, classes_, ascii_);
    for (size_t at = 0; at < text.size();) {
      at = scanner.piece_end(at);
      ends.push_back(static_cast<uint32_t>(at));
    }
  }

 private:
  const UnicodeClasses& classes_;
  CharClass ascii_[128] = {};
};

}  // namespace

std::unique_ptr<const PreTokenizer> make_pretokenizer(std::string_view pattern, std::string_view what) {
  if (pattern == kGlmPattern) return std::make_unique<GlmPreTokenizer>();
  return make_regex_pretokenizer(pattern, what);
}

}  // namespace glint
