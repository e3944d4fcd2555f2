// A parsed template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/value.h"

namespace glint::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Argument {
  std::string name;  // "" for a positional one
  ExpressionPtr value;
};

enum class ExpressionKind {
  literal,    // value
  name,       // name
  list,       // items
  tuple,      // items
  dict,       // items: key, value, key, value ...
  attribute,  // items[0].name
  item,       // items[0][items[1]]
  slice,      // items[0][items[1]:items[2]:items[3]]; null where left out
  call,       // items[0](arguments)
  filter,     // items[0] | name(arguments)
  test,       // items[0] is name(arguments)
  unary,      // name items[0]; name is not, + or -
  binary,     // items[0] name items[1]; name is an arithmetic operator or ~
  compare,    // items[0] operators[0] items[1] operators[1] items[2] ...
  both,       // items[0] and items[1]
  either,     // items[0] or items[1]
  choice,     // items[0] if items[1] else items[2] (null: undefined)
};

struct Expression {
  ExpressionKind kind = ExpressionKind::literal;
  Place place;
  std::string name;
  Value value;
  std::vector<ExpressionPtr> items;
  std::vector<Argument> arguments;
  std::vector<std::string> operators;
};

struct Statement;
using Body = std::vector<std::unique_ptr<const Statement>>;

/// What is assigned to: names (several: unpacked), or one member of a namespace.
struct Target {
  std::vector<std::string> names;
  std::string member;  // "" unless it is names[0].member
  bool is_tuple = false;
};

/// A parameter of a macro; without a default it is undefined when left out.
struct Parameter {
  std::string name;
  ExpressionPtr fallback;
};

enum class StatementKind {
  text,          // text
  print,         // value
  condition,     // value; body; otherwise
  loop,          // for target in value if filter; body; otherwise
  stop,          // break
  next,          // continue
  assign,        // target = value
  assign_block,  // target = the body's text, through value if it is not null (a filter on `block_text`)
  macro,         // text: its name; parameters; body
  call_block,    // value: the call; parameters of `caller`; body
  filter_block,  // value: the filter on `block_text`; body
  scope,         // with: bindings; body
};

struct Statement {
  StatementKind kind = StatementKind::text;
  Place place;
  std::string text;
  Target target;
  ExpressionPtr value, filter;
  std::vector<Parameter> parameters;
  std::vector<std::pair<Target, ExpressionPtr>> bindings;
  bool takes_varargs = false, takes_kwargs = false;  // the macro's body names them
  Body body, otherwise;
};

/// The name under which a filter on a block finds the block's text; no template can write it.
inline constexpr const char* kBlockText = " block";

}  // namespace glint::jinja
