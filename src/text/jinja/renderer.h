// Runs a parsed template once. Private to Template.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/template.h"

namespace glint::jinja {

/// The names that a piece of template sees; what is not here is looked for outside.
struct Scope {
  const Scope* outer = nullptr;
  std::vector<std::pair<std::string, Value>> names;

  [[nodiscard]] const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

class Renderer {
 public:
  Renderer(std::string_view what, const Dict& variables, const Limits& limits);

  std::string run(const Body& body);

  /// Calls the macro that `statement` defined in `scope`.
  Value call_macro(const Statement& statement, const Scope& scope, const Arguments& arguments);

 private:
  enum class Flow { on, stop, next };
  class Depth;
  class Capture;

  Flow run_body(const Body& body, Scope& scope);
  Flow run_statement(const Statement& statement, Scope& scope);
  Flow run_loop(const Statement& statement, Scope& scope);
  void run_with(const Statement& statement, Scope& scope);
  void run_call_block(const Statement& statement, Scope& scope);
  void assign(const Target& target, Value value, Scope& scope, Place place);
  /// What the statement's body prints, in a scope of its own, through its filter if it has one.
  Value block_text(const Statement& statement, Scope& scope);

  Value evaluate(const Expression& expression, const Scope& scope);
  Value evaluate_here(const Expression& expression, const Scope& scope);
  std::vector<Value> evaluate_all(const Expression& expression, const Scope& scope);
  Arguments evaluate_arguments(const Expression& expression, const Scope& scope);
  Value name(const Expression& expression, const Scope& scope);
  Value dict(const Expression& expression, const Scope& scope);
  Value slice(const Expression& expression, const Scope& scope);
  Value call(const Expression& expression, const Scope& scope);
  bool compare(const Expression& expression, const Scope& scope);

  Value macro_of(const Statement& statement, const Scope& scope);
  void step(Place place);
  void print(const Value& value);
  /// A scope that lives until the end of the run, because a macro may look into it.
  Scope& new_scope(const Scope& outer);

  std::string_view what_;
  Limits limits_;
  std::deque<Scope> scopes_;
  std::string out_;
  Place place_;
  int64_t steps_ = 0;
  size_t macros_ = 0;  // that were made so far
  int depth_ = 0;
};

}  // namespace glint::jinja
