#include "text/jinja/parse_expression.h"

#include <algorithm>
#include <array>

#include "text/jinja/builtins.h"
#include "text/jinja/literals.h"

namespace glint::jinja {

namespace {

constexpr int kDepthMax = 200;

std::unique_ptr<Expression> make(ExpressionKind kind, Place place) {
  auto out = std::make_unique<Expression>();
  out->kind = kind;
  out->place = place;
  return out;
}

ExpressionPtr make(ExpressionKind kind, Place place, std::string name, ExpressionPtr a,
                   ExpressionPtr b = nullptr) {
  auto out = make(kind, place);
  out->name = std::move(name);
  out->items.push_back(std::move(a));
  if (b != nullptr) out->items.push_back(std::move(b));
  return out;
}

ExpressionPtr literal(Place place, Value value) {
  auto out = make(ExpressionKind::literal, place);
  out->value = std::move(value);
  return out;
}

}  // namespace

/// Bounds the nesting of expressions, and with it the stack of everybody who walks them.
class ExpressionParser::Depth {
 public:
  explicit Depth(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.depth_ > kDepthMax) parser_.tokens_.error("the expression is nested too deeply");
  }
  ~Depth() { --parser_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  ExpressionParser& parser_;
};

ExpressionPtr ExpressionParser::expression(bool with_choice) {
  const Depth depth(*this);
  return with_choice ? choice() : either();
}

ExpressionPtr ExpressionParser::tuple(bool with_choice) {
  const Place place = tokens_.peek().place;
  ExpressionPtr first = expression(with_choice);
  if (!tokens_.at_op(",")) return first;
  auto out = make(ExpressionKind::tuple, place);
  out->items.push_back(std::move(first));
  while (tokens_.skip_op(",")) {
    if (tokens_.at(TokenKind::block_end) || tokens_.at(TokenKind::print_end) || tokens_.at_op(")") ||
        tokens_.at_name("in")) {
      break;
    }
    out->items.push_back(expression(with_choice));
  }
  return out;
}

ExpressionPtr ExpressionParser::choice() {
  ExpressionPtr out = either();
  while (tokens_.at_name("if")) {
    auto next = make(ExpressionKind::choice, tokens_.take().place);
    next->items.push_back(std::move(out));
    next->items.push_back(either());
    const Depth depth(*this);
    next->items.push_back(tokens_.skip_name("else") ? choice() : nullptr);
    out = std::move(next);
  }
  return out;
}

ExpressionPtr ExpressionParser::either() {
  ExpressionPtr out = both();
  while (tokens_.at_name("or")) {
    const Place place = tokens_.take().place;
    out = make(ExpressionKind::either, place, "or", std::move(out), both());
  }
  return out;
}

ExpressionPtr ExpressionParser::both() {
  ExpressionPtr out = negation();
  while (tokens_.at_name("and")) {
    const Place place = tokens_.take().place;
    out = make(ExpressionKind::both, place, "and", std::move(out), negation());
  }
  return out;
}

ExpressionPtr ExpressionParser::negation() {
  if (!tokens_.at_name("not")) return comparison();
  const Depth depth(*this);
  const Place place = tokens_.take().place;
  return make(ExpressionKind::unary, place, "not", negation());
}

ExpressionPtr ExpressionParser::comparison() {
  static constexpr std::array<std::string_view, 6> kSigns = {"==", "!=", "<", "<=", ">", ">="};
  const Place place = tokens_.peek().place;
  ExpressionPtr first = sum();
  std::unique_ptr<Expression> out;
  while (true) {
    std::string sign;
    if (tokens_.at(TokenKind::op) &&
        std::find(kSigns.begin(), kSigns.end(), tokens_.peek().value) != kSigns.end()) {
      sign = tokens_.take().value;
    } else if (tokens_.skip_name("in")) {
      sign = "in";
    } else if (tokens_.at_name("not") && tokens_.peek(1).kind == TokenKind::name &&
               tokens_.peek(1).value == "in") {
      tokens_.take();
      tokens_.take();
      sign = "not in";
    } else {
      break;
    }
    if (out == nullptr) {
      out = make(ExpressionKind::compare, place);
      out->items.push_back(std::move(first));
    }
    out->operators.push_back(std::move(sign));
    out->items.push_back(sum());
  }
  return out == nullptr ? std::move(first) : ExpressionPtr(std::move(out));
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr out = concatenation();
  while (tokens_.at_op("+") || tokens_.at_op("-")) {
    const Token op = tokens_.take();
    out = make(ExpressionKind::binary, op.place, op.value, std::move(out), concatenation());
  }
  return out;
}

ExpressionPtr ExpressionParser::concatenation() {
  ExpressionPtr out = product();
  while (tokens_.at_op("~")) {
    const Token op = tokens_.take();
    out = make(ExpressionKind::binary, op.place, op.value, std::move(out), product());
  }
  return out;
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr out = power();
  while (tokens_.at_op("*") || tokens_.at_op("/") || tokens_.at_op("//") || tokens_.at_op("%")) {
    const Token op = tokens_.take();
    out = make(ExpressionKind::binary, op.place, op.value, std::move(out), power());
  }
  return out;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr out = unary(true);
  while (tokens_.at_op("**")) {
    const Token op = tokens_.take();
    out = make(ExpressionKind::binary, op.place, op.value, std::move(out), unary(true));
  }
  return out;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  ExpressionPtr out;
  if (tokens_.at_op("-") || tokens_.at_op("+")) {
    const Depth depth(*this);
    const Token op = tokens_.take();
    out = make(ExpressionKind::unary, op.place, op.value, unary(false));
  } else {
    out = primary();
  }
  out = postfix(std::move(out));
  return with_filters ? filters_and_tests(std::move(out)) : std::move(out);
}

ExpressionPtr ExpressionParser::primary() {
  const Token token = tokens_.peek();
  switch (token.kind) {
    case TokenKind::name: {
      tokens_.take();
      if (token.value == "true" || token.value == "True") return literal(token.place, Value(true));
      if (token.value == "false" || token.value == "False") return literal(token.place, Value(false));
      if (token.value == "none" || token.value == "None") return literal(token.place, Value(None{}));
      auto out = make(ExpressionKind::name, token.place);
      out->name = token.value;
      return out;
    }
    case TokenKind::string: {
      std::string text;
      while (tokens_.at(TokenKind::string)) text += tokens_.take().value;
      return literal(token.place, Value(std::move(text)));
    }
    case TokenKind::integer:
      tokens_.take();
      return literal(token.place, integer_literal(token.value));
    case TokenKind::real:
      tokens_.take();
      return literal(token.place, real_literal(token.value));
    default:
      break;
  }
  if (tokens_.skip_op("(")) {
    if (tokens_.skip_op(")")) return make(ExpressionKind::tuple, token.place);
    const Depth depth(*this);
    ExpressionPtr out = tuple();
    tokens_.expect_op(")");
    return out;
  }
  if (tokens_.skip_op("[")) {
    auto out = make(ExpressionKind::list, token.place);
    out->items = items_until("]");
    return out;
  }
  if (tokens_.at_op("{")) return dict();
  tokens_.error(cat("expected an expression, found ", tokens_.found()));
}

std::vector<ExpressionPtr> ExpressionParser::items_until(std::string_view close) {
  std::vector<ExpressionPtr> out;
  while (!tokens_.skip_op(close)) {
    if (!out.empty()) {
      tokens_.expect_op(",");
      if (tokens_.skip_op(close)) break;
    }
    out.push_back(expression());
  }
  return out;
}

ExpressionPtr ExpressionParser::dict() {
  auto out = make(ExpressionKind::dict, tokens_.take().place);
  while (!tokens_.skip_op("}")) {
    if (!out->items.empty()) {
      tokens_.expect_op(",");
      if (tokens_.skip_op("}")) break;
    }
    out->items.push_back(expression());
    tokens_.expect_op(":");
    out->items.push_back(expression());
  }
  return out;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr base) {
  while (true) {
    const Place place = tokens_.peek().place;
    if (tokens_.skip_op(".")) {
      if (tokens_.at(TokenKind::integer)) {
        base = make(ExpressionKind::item, place, {}, std::move(base),
                    literal(place, integer_literal(tokens_.take().value)));
      } else {
        std::string name = tokens_.expect_name("a member's name");
        base = make(ExpressionKind::attribute, place, std::move(name), std::move(base));
      }
    } else if (tokens_.at_op("[")) {
      base = subscript(std::move(base));
    } else if (tokens_.at_op("(")) {
      auto out = make(ExpressionKind::call, place);
      out->items.push_back(std::move(base));
      out->arguments = arguments();
      base = std::move(out);
    } else {
      return base;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr base) {
  const Place place = tokens_.take().place;
  std::array<ExpressionPtr, 3> parts;
  size_t part = 0;
  bool is_slice = false;
  while (!tokens_.at_op("]")) {
    if (tokens_.skip_op(":")) {
      is_slice = true;
      if (++part == parts.size()) tokens_.error("a slice has at most three parts");
    } else if (parts[part] != nullptr) {
      tokens_.error(cat("expected ']' or ':', found ", tokens_.found()));
    } else {
      parts[part] = expression();
    }
  }
  if (!is_slice && parts[0] == nullptr) tokens_.error("expected an index, found ']'");
  tokens_.take();
  if (!is_slice) return make(ExpressionKind::item, place, {}, std::move(base), std::move(parts[0]));
  auto out = make(ExpressionKind::slice, place);
  out->items.push_back(std::move(base));
  for (ExpressionPtr& entry : parts) out->items.push_back(std::move(entry));
  return out;
}

std::vector<Argument> ExpressionParser::arguments() {
  std::vector<Argument> out;
  tokens_.expect_op("(");
  while (!tokens_.skip_op(")")) {
    if (!out.empty()) {
      tokens_.expect_op(",");
      if (tokens_.skip_op(")")) break;
    }
    if (tokens_.at_op("*") || tokens_.at_op("**")) {
      tokens_.unsupported(tokens_.peek().place, "unpacking arguments with * is not supported");
    }
    Argument argument;
    if (tokens_.at(TokenKind::name) && tokens_.peek(1).kind == TokenKind::op &&
        tokens_.peek(1).value == "=") {
      argument.name = tokens_.take().value;
      tokens_.take();
    } else if (!out.empty() && !out.back().name.empty()) {
      tokens_.error("a positional argument behind a named one");
    }
    argument.value = expression();
    out.push_back(std::move(argument));
  }
  return out;
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr base) {
  while (true) {
    if (tokens_.skip_op("|")) {
      base = filter(std::move(base));
    } else if (tokens_.at_name("is")) {
      base = test(std::move(base));
    } else if (tokens_.at_op("(")) {
      auto out = make(ExpressionKind::call, tokens_.peek().place);
      out->items.push_back(std::move(base));
      out->arguments = arguments();
      base = std::move(out);
    } else {
      return base;
    }
  }
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr base) {
  auto out = make(ExpressionKind::filter, tokens_.peek().place);
  out->name = tokens_.expect_name("a filter's name");
  if (!has_filter(out->name)) {
    tokens_.unsupported(out->place,
                        cat("the filter '", out->name, "' is not known; known are ", filter_names()));
  }
  out->items.push_back(std::move(base));
  if (tokens_.at_op("(")) out->arguments = arguments();
  return out;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr base) {
  const Place place = tokens_.take().place;
  const bool negated = tokens_.skip_name("not");
  auto out = make(ExpressionKind::test, tokens_.peek().place);
  out->name = tokens_.expect_name("a test's name");
  if (!has_test(out->name)) {
    tokens_.unsupported(out->place, cat("the test '", out->name, "' is not known; known are ", test_names()));
  }
  out->items.push_back(std::move(base));
  if (tokens_.at_op("(")) {
    out->arguments = arguments();
  } else {
    // As in Jinja: an operand may follow without parentheses, `x is divisibleby 3`.
    const Token& next = tokens_.peek();
    const bool starts_operand =
        next.kind == TokenKind::string || next.kind == TokenKind::integer || next.kind == TokenKind::real ||
        tokens_.at_op("[") || tokens_.at_op("{") ||
        (next.kind == TokenKind::name && next.value != "else" && next.value != "or" && next.value != "and" &&
         next.value != "is" && next.value != "if" && next.value != "in" && next.value != "not");
    if (starts_operand) out->arguments.push_back({{}, postfix(primary())});
  }
  if (!negated) return out;
  return make(ExpressionKind::unary, place, "not", std::move(out));
}

ExpressionPtr ExpressionParser::block_filters() {
  auto text = make(ExpressionKind::name, tokens_.peek().place);
  text->name = kBlockText;
  ExpressionPtr out = filter(std::move(text));
  while (tokens_.skip_op("|")) out = filter(std::move(out));
  return out;
}

}  // namespace glint::jinja
