#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"
#include "text/jinja/literals.h"
#include "text/python_text.h"

namespace glint::jinja {

void syntax_error(std::string_view what, Place place, const std::string& message) {
  fail(ErrorKind::bad_input, what, ":", place.line, ":", place.column, ": ", message);
}

namespace {

/// Bounds how deep an expression can nest, and so the stack of who walks it.
constexpr int kTagTokensMax = 4000;

/// Newlines become \n, and one at the very end goes.
std::string normalised(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      out += source[at];
      continue;
    }
    out += '\n';
    if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_name_start(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code == '_' || code >= 0x80 || std::isalpha(code) != 0;
}

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view what) : source_(normalised(source)), what_(what) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const size_t tag = find_tag(at_);
      text_until(tag);
      if (tag < source_.size()) read_tag();
    }
    add(TokenKind::end, {});
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] std::string_view rest() const { return std::string_view(source_).substr(at_); }
  [[nodiscard]] bool looking_at(std::string_view text) const { return rest().starts_with(text); }

  Place place(size_t at) {
    for (; counted_ < at; ++counted_) {
      if (source_[counted_] == '\n') {
        ++line_;
        line_begin_ = counted_ + 1;
      }
    }
    return {line_, static_cast<int>(at - line_begin_) + 1};
  }

  void add(TokenKind kind, std::string value) { tokens_.push_back({kind, std::move(value), place(at_)}); }

  [[noreturn]] void error(const std::string& message) { syntax_error(what_, place(at_), message); }

  /// The next "{{", "{%" or "{#", or the end.
  [[nodiscard]] size_t find_tag(size_t from) const {
    for (size_t at = source_.find('{', from); at != std::string::npos; at = source_.find('{', at + 1)) {
      const char next = at + 1 < source_.size() ? source_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return source_.size();
  }

  /// Emits the text before the tag at `tag`, stripped as the tag wants.
  void text_until(size_t tag) {
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    if (tag < source_.size()) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      if (sign == '-') {
        text = python_rstrip(text);
      } else if (sign != '+' && source_[tag + 1] != '{') {
        const size_t newline = text.rfind('\n');
        const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
        const bool from_line_start = newline != std::string_view::npos || at_line_start_;
        if (from_line_start && is_blank(text.substr(line))) text = text.substr(0, line);
      }
    }
    if (!text.empty()) add(TokenKind::text, std::string(text));
    at_ = tag;
  }

  /// Passes "-%}" and the white space behind it, "+%}", or "%}" and one newline (`newline_goes`).
  bool close(std::string_view delimiter, bool newline_goes) {
    const char sign = looking_at("-") ? '-' : looking_at("+") && newline_goes ? '+' : '\0';
    if (!rest().substr(sign == '\0' ? 0 : 1).starts_with(delimiter)) return false;
    at_ += delimiter.size() + (sign == '\0' ? 0 : 1);
    at_line_start_ = false;
    const size_t before = at_;
    if (sign == '-') {
      at_ = source_.size() - python_lstrip(rest()).size();
    } else if (sign == '\0' && newline_goes && looking_at("\n")) {
      ++at_;
    }
    at_line_start_ = at_ > before && source_[at_ - 1] == '\n';
    return true;
  }

  void open() {
    at_ += 2;
    if (looking_at("-") || looking_at("+")) ++at_;
  }

  void skip_space() { at_ = source_.size() - python_lstrip(rest()).size(); }

  void read_tag() {
    const char kind = source_[at_ + 1];
    if (kind == '#') return comment();
    if (kind == '%' && raw()) return;
    const std::string_view delimiter = kind == '%' ? "%}" : "}}";
    add(kind == '%' ? TokenKind::block_begin : TokenKind::print_begin, {});
    const Place begin = tokens_.back().place;
    open();
    brackets_.clear();
    int count = 0;
    while (true) {
      skip_space();
      if (at_ >= source_.size()) syntax_error(what_, begin, cat("the tag is not closed: no ", delimiter));
      if (++count > kTagTokensMax) syntax_error(what_, begin, "the tag is too long");
      const size_t end = at_;
      if (brackets_.empty() && close(delimiter, kind == '%')) {
        tokens_.push_back({kind == '%' ? TokenKind::block_end : TokenKind::print_end, {}, place(end)});
        return;
      }
      token();
    }
  }

  void comment() {
    const Place begin = place(at_);
    at_ += 2;
    const size_t end = source_.find("#}", at_);
    if (end != std::string::npos) {
      const bool signed_end = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
      at_ = signed_end ? end - 1 : end;
      close("#}", true);
      return;
    }
    syntax_error(what_, begin, "the comment is not closed: no #}");
  }

  /// `{% word %}` at `at`: the place behind the word, or npos.
  [[nodiscard]] size_t tag_word(size_t at, std::string_view word) const {
    size_t in = at + 2;
    if (in < source_.size() && (source_[in] == '-' || source_[in] == '+')) ++in;
    while (in < source_.size() && std::isspace(static_cast<unsigned char>(source_[in])) != 0) ++in;
    if (!std::string_view(source_).substr(in).starts_with(word)) return std::string::npos;
    in += word.size();
    while (in < source_.size() && std::isspace(static_cast<unsigned char>(source_[in])) != 0) ++in;
    const std::string_view tail = std::string_view(source_).substr(in);
    if (!tail.starts_with("%}") && !tail.starts_with("-%}") && !tail.starts_with("+%}"))
      return std::string::npos;
    return in;
  }

  bool raw() {
    const size_t in = tag_word(at_, "raw");
    if (in == std::string::npos) return false;
    const Place begin = place(at_);
    at_ = in;
    close("%}", false);
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 2)) {
      const size_t end = tag_word(tag, "endraw");
      if (end == std::string::npos) continue;
      text_until(tag);
      at_ = end;
      close("%}", true);
      return true;
    }
    syntax_error(what_, begin, "{% raw %} is not closed: no {% endraw %}");
  }

  void token() {
    const char first = source_[at_];
    if (is_name_start(first)) {
      size_t end = at_ + 1;
      while (end < source_.size() && (is_name_start(source_[end]) || is_digit(source_[end]))) ++end;
      return emit(TokenKind::name, end);
    }
    if (is_digit(first)) return number();
    if (first == '\'' || first == '"') return string(first);
    operation();
  }

  void emit(TokenKind kind, size_t end) {
    add(kind, source_.substr(at_, end - at_));
    at_ = end;
  }

  void number() {
    // After a dot only digits count: `content.0.type` is two look-ups.
    const bool member =
        !tokens_.empty() && tokens_.back().kind == TokenKind::op && tokens_.back().value == ".";
    const NumberEnd end = number_end(source_, at_, !member);
    emit(end.is_real ? TokenKind::real : TokenKind::integer, end.at);
  }

  void string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) error("the string is not closed");
    add(TokenKind::string, unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    at_ = end + 1;
  }

  void operation() {
    static constexpr std::array<std::string_view, 27> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]",
        "(",  ")",  "{",  "}",  ">",  "<",  "=", ".", ":", "|", ",", ";", "!"};
    const auto* const found = std::find_if(kOperators.begin(), kOperators.end(),
                                           [&](std::string_view name) { return looking_at(name); });
    if (found == kOperators.end() || *found == "!" || *found == ";") {
      error(cat("'", source_.substr(at_, 1), "' means nothing here"));
    }
    const char symbol = found->front();
    if (symbol == '(' || symbol == '[' || symbol == '{') brackets_ += symbol;
    if (symbol == ')' || symbol == ']' || symbol == '}') {
      const char wanted = symbol == ')' ? '(' : symbol == ']' ? '[' : '{';
      if (brackets_.empty() || brackets_.back() != wanted) error(cat("'", *found, "' closes nothing"));
      brackets_.pop_back();
    }
    emit(TokenKind::op, at_ + found->size());
  }

  std::string source_;
  std::string_view what_;
  size_t at_ = 0;
  bool at_line_start_ = true;
  std::string brackets_;
  std::vector<Token> tokens_;
  size_t counted_ = 0, line_begin_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, std::string_view what) {
  return Lexer(source, what).run();
}

}  // namespace glint::jinja
