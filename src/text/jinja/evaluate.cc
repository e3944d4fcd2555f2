// Expressions of a running template.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/renderer.h"

namespace glint::jinja {

namespace {

bool ordered(const std::string& sign, const Value& a, const Value& b) {
  if (sign == "==") return equal(a, b);
  if (sign == "!=") return !equal(a, b);
  if (sign == "in") return contains(b, a);
  if (sign == "not in") return !contains(b, a);
  if (sign == "<") return less(a, b);
  if (sign == ">") return less(b, a);
  // For numbers that are not ordered (NaN cannot come in) and for lists these are the negations.
  if (sign == "<=") return !less(b, a);
  return !less(a, b);
}

}  // namespace

Value Renderer::evaluate(const Expression& expression, const Scope& scope) {
  if (expression.kind == ExpressionKind::literal) return expression.value;
  if (++depth_ > 1500) {
    --depth_;
    raise("calls and expressions are nested too deeply");
  }
  struct Leave {
    int& depth;
    ~Leave() { --depth; }
  } const leave{depth_};
  step(expression.place);
  return evaluate_here(expression, scope);
}

Value Renderer::evaluate_here(const Expression& expression, const Scope& scope) {
  const auto operand = [&](size_t i) { return evaluate(*expression.items[i], scope); };
  switch (expression.kind) {
    case ExpressionKind::literal:
      return expression.value;
    case ExpressionKind::name:
      return name(expression, scope);
    case ExpressionKind::list:
      return Value::list(evaluate_all(expression, scope));
    case ExpressionKind::tuple:
      return Value::tuple(evaluate_all(expression, scope));
    case ExpressionKind::dict:
      return dict(expression, scope);
    case ExpressionKind::attribute:
      return attribute_of(operand(0), expression.name);
    case ExpressionKind::item: {
      const Value base = operand(0);
      return item_of(base, operand(1));
    }
    case ExpressionKind::slice:
      return slice(expression, scope);
    case ExpressionKind::call:
      return call(expression, scope);
    case ExpressionKind::filter: {
      const Value value = operand(0);
      return apply_filter(expression.name, value, evaluate_arguments(expression, scope));
    }
    case ExpressionKind::test: {
      const Value value = operand(0);
      return {apply_test(expression.name, value, evaluate_arguments(expression, scope))};
    }
    case ExpressionKind::unary: {
      const Value value = operand(0);
      if (expression.name == "not") return {!is_true(value)};
      return expression.name == "-" ? negated(value) : binary("+", Value(int64_t{0}), value);
    }
    case ExpressionKind::binary: {
      const Value left = operand(0);
      return binary(expression.name, left, operand(1));
    }
    case ExpressionKind::compare:
      return {compare(expression, scope)};
    case ExpressionKind::both: {
      Value left = operand(0);
      return is_true(left) ? operand(1) : left;
    }
    case ExpressionKind::either: {
      Value left = operand(0);
      return is_true(left) ? left : operand(1);
    }
    case ExpressionKind::choice:
      if (is_true(operand(1))) return operand(0);
      if (expression.items[2] != nullptr) return operand(2);
      return Value::undefined("the inline if-expression was false and has no else");
  }
  return {};
}

std::vector<Value> Renderer::evaluate_all(const Expression& expression, const Scope& scope) {
  std::vector<Value> out;
  out.reserve(expression.items.size());
  for (const ExpressionPtr& item : expression.items) out.push_back(evaluate(*item, scope));
  return out;
}

Arguments Renderer::evaluate_arguments(const Expression& expression, const Scope& scope) {
  Arguments out;
  for (const Argument& argument : expression.arguments) {
    Value value = evaluate(*argument.value, scope);
    if (argument.name.empty()) {
      out.positional.push_back(std::move(value));
    } else {
      out.named.emplace_back(argument.name, std::move(value));
    }
  }
  return out;
}

Value Renderer::name(const Expression& expression, const Scope& scope) {
  if (const Value* value = scope.find(expression.name)) return *value;
  Value global = global_named(expression.name);
  if (!global.is(Kind::undefined)) return global;
  return Value::undefined(cat("'", expression.name, "' is undefined"));
}

Value Renderer::dict(const Expression& expression, const Scope& scope) {
  Dict out;
  for (size_t i = 0; i + 1 < expression.items.size(); i += 2) {
    Value key = evaluate(*expression.items[i], scope);
    out.set(std::move(key), evaluate(*expression.items[i + 1], scope));
  }
  return {std::move(out)};
}

Value Renderer::slice(const Expression& expression, const Scope& scope) {
  std::vector<Value> parts;
  for (const ExpressionPtr& item : expression.items) {
    parts.push_back(item == nullptr ? Value() : evaluate(*item, scope));
  }
  return slice_of(parts[0], parts[1], parts[2], parts[3]);
}

Value Renderer::call(const Expression& expression, const Scope& scope) {
  const Value callee = evaluate(*expression.items[0], scope);
  need_defined(callee);
  if (!callee.is(Kind::function)) raise("'", type_name(callee), "' object is not callable");
  return callee.function()->call(evaluate_arguments(expression, scope));
}

bool Renderer::compare(const Expression& expression, const Scope& scope) {
  Value left = evaluate(*expression.items[0], scope);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = evaluate(*expression.items[i + 1], scope);
    if (!ordered(expression.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

}  // namespace glint::jinja
