// The tokens of a template under the parser's finger, with its errors. Private to the parser.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/jinja/lexer.h"

namespace glint::jinja {

class TokenReader {
 public:
  TokenReader(std::vector<Token> tokens, std::string_view what) : tokens_(std::move(tokens)), what_(what) {}

  [[nodiscard]] const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  [[nodiscard]] std::string_view what() const { return what_; }

  [[nodiscard]] bool at(TokenKind kind) const { return peek().kind == kind; }
  [[nodiscard]] bool at_op(std::string_view op) const { return at(TokenKind::op) && peek().value == op; }
  [[nodiscard]] bool at_name(std::string_view name) const {
    return at(TokenKind::name) && peek().value == name;
  }

  bool skip_op(std::string_view op) {
    if (!at_op(op)) return false;
    take();
    return true;
  }
  bool skip_name(std::string_view name) {
    if (!at_name(name)) return false;
    take();
    return true;
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) error(cat("expected '", op, "', found ", found()));
  }
  void expect(TokenKind kind, std::string_view name) {
    if (!at(kind)) error(cat("expected ", name, ", found ", found()));
    take();
  }
  std::string expect_name(std::string_view role) {
    if (!at(TokenKind::name)) error(cat("expected ", role, ", found ", found()));
    return take().value;
  }

  [[nodiscard]] size_t position() const { return at_; }
  /// True if `name` stands among the tokens from `first` up to here.
  [[nodiscard]] bool names_since(size_t first, std::string_view name) const {
    return std::any_of(
        tokens_.begin() + static_cast<ptrdiff_t>(first), tokens_.begin() + static_cast<ptrdiff_t>(at_),
        [&](const Token& token) { return token.kind == TokenKind::name && token.value == name; });
  }

  [[nodiscard]] std::string found() const {
    switch (peek().kind) {
      case TokenKind::block_end:
        return "the end of the tag";
      case TokenKind::print_end:
        return "the end of the expression";
      case TokenKind::end:
        return "the end of the template";
      case TokenKind::text:
        return "text";
      case TokenKind::string:
        return "a string";
      default:
        return cat("'", peek().value, "'");
    }
  }
  [[noreturn]] void error(const std::string& message) const { syntax_error(what_, peek().place, message); }
  [[noreturn]] void unsupported(Place place, const std::string& message) const {
    fail(ErrorKind::unsupported, what_, ":", place.line, ":", place.column, ": ", message);
  }

 private:
  std::vector<Token> tokens_;
  std::string_view what_;
  size_t at_ = 0;
};

}  // namespace glint::jinja
