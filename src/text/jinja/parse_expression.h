// Expressions of a template. Private to the parser.
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/token_reader.h"

namespace glint::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenReader& tokens) : tokens_(tokens) {}

  /// One expression; `a if b else c` only with `with_choice`.
  ExpressionPtr expression(bool with_choice = true);
  /// The same, or several with commas between them as a tuple.
  ExpressionPtr tuple(bool with_choice = true);
  /// A chain of filters, `a|b(1)`, on the text of a block; the first name is under the finger.
  ExpressionPtr block_filters();
  /// "(" arguments ")".
  std::vector<Argument> arguments();

 private:
  class Depth;

  ExpressionPtr choice();
  ExpressionPtr either();
  ExpressionPtr both();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr postfix(ExpressionPtr base);
  ExpressionPtr subscript(ExpressionPtr base);
  ExpressionPtr filters_and_tests(ExpressionPtr base);
  ExpressionPtr filter(ExpressionPtr base);
  ExpressionPtr test(ExpressionPtr base);
  ExpressionPtr dict();
  std::vector<ExpressionPtr> items_until(std::string_view close);

  TokenReader& tokens_;
  int depth_ = 0;
};

}  // namespace glint::jinja
