#include "text/jinja/renderer.h"

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/loop_object.h"

namespace glint::jinja {

namespace {

constexpr int kDepthMax = 1500;

class Macro final : public Function {
 public:
  Macro(Renderer& renderer, const Statement& statement, const Scope& scope)
      : renderer_(renderer), statement_(statement), scope_(scope) {}

  [[nodiscard]] Value call(const Arguments& arguments) const override {
    return renderer_.call_macro(statement_, scope_, arguments);
  }
  [[nodiscard]] std::string name() const override {
    return statement_.kind == StatementKind::call_block ? "caller" : statement_.text;
  }

 private:
  Renderer& renderer_;
  const Statement& statement_;
  const Scope& scope_;
};

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
    for (const auto& [key, value] : scope->names) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [key, old] : names) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  names.emplace_back(name, std::move(value));
}

/// Bounds how deep bodies, expressions and macros stand in each other.
class Renderer::Depth {
 public:
  explicit Depth(Renderer& renderer) : renderer_(renderer) {
    if (++renderer_.depth_ > kDepthMax) {
      --renderer_.depth_;
      raise("calls and expressions are nested too deeply");
    }
  }
  ~Depth() { --renderer_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Renderer& renderer_;
};

/// Collects what is printed in its lifetime.
class Renderer::Capture {
 public:
  explicit Capture(Renderer& renderer) : renderer_(renderer) { outer_.swap(renderer_.out_); }
  ~Capture() { outer_.swap(renderer_.out_); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::string take() { return std::move(renderer_.out_); }

 private:
  Renderer& renderer_;
  std::string outer_;
};

Renderer::Renderer(std::string_view what, const Dict& variables, const Limits& limits)
    : what_(what), limits_(limits) {
  Scope& globals = scopes_.emplace_back();
  for (const auto& [key, value] : variables.entries) globals.set(key.text("a variable's name"), value);
}

Value Renderer::macro_of(const Statement& statement, const Scope& scope) {
  ++macros_;
  return {std::shared_ptr<const Function>(std::make_shared<const Macro>(*this, statement, scope))};
}

std::string Renderer::run(const Body& body) {
  try {
    run_body(body, new_scope(scopes_.front()));
  } catch (const Raised&) {
    throw;
  } catch (const Error& error) {
    fail(error.kind(), what_, ":", place_.line, ":", place_.column, ": ", error.what());
  }
  return std::move(out_);
}

void Renderer::step(Place place) {
  place_ = place;
  if (++steps_ > limits_.steps_max) raise("the template takes more than ", limits_.steps_max, " steps");
}

Scope& Renderer::new_scope(const Scope& outer) {
  Scope& scope = scopes_.emplace_back();
  scope.outer = &outer;
  return scope;
}

void Renderer::print(const Value& value) {
  append_text(out_, value);
  if (static_cast<int64_t>(out_.size()) > limits_.text_bytes_max) {
    raise("the template writes more than ", limits_.text_bytes_max, " bytes");
  }
}

Renderer::Flow Renderer::run_body(const Body& body, Scope& scope) {
  for (const auto& statement : body) {
    const Flow flow = run_statement(*statement, scope);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Renderer::Flow Renderer::run_statement(const Statement& statement, Scope& scope) {
  const Depth depth(*this);
  step(statement.place);
  switch (statement.kind) {
    case StatementKind::text:
      out_ += statement.text;
      break;
    case StatementKind::print:
      print(evaluate(*statement.value, scope));
      break;
    case StatementKind::condition:
      return run_body(is_true(evaluate(*statement.value, scope)) ? statement.body : statement.otherwise,
                      scope);
    case StatementKind::loop:
      return run_loop(statement, scope);
    case StatementKind::stop:
      return Flow::stop;
    case StatementKind::next:
      return Flow::next;
    case StatementKind::assign:
      assign(statement.target, evaluate(*statement.value, scope), scope, statement.place);
      break;
    case StatementKind::assign_block:
      assign(statement.target, block_text(statement, scope), scope, statement.place);
      break;
    case StatementKind::macro:
      scope.set(statement.text, macro_of(statement, scope));
      break;
    case StatementKind::call_block:
      run_call_block(statement, scope);
      break;
    case StatementKind::filter_block:
      print(block_text(statement, scope));
      break;
    case StatementKind::scope:
      run_with(statement, scope);
      break;
  }
  return Flow::on;
}

Renderer::Flow Renderer::run_loop(const Statement& statement, Scope& scope) {
  std::vector<Value> items = items_of(evaluate(*statement.value, scope));
  if (statement.filter != nullptr) {
    std::erase_if(items, [&](const Value& item) {
      Scope inner;
      inner.outer = &scope;
      assign(statement.target, item, inner, statement.place);
      return !is_true(evaluate(*statement.filter, inner));
    });
  }
  if (items.empty()) return run_body(statement.otherwise, new_scope(scope));
  const auto loop = std::make_shared<LoopObject>(std::move(items));
  for (; !loop->done(); loop->advance()) {
    step(statement.place);
    const size_t scopes = scopes_.size();
    const size_t macros = macros_;
    Scope& inner = new_scope(scope);
    inner.set("loop", Value(std::shared_ptr<Object>(loop)));
    assign(statement.target, loop->current(), inner, statement.place);
    const Flow flow = run_body(statement.body, inner);
    // Without a new macro nobody can look into these scopes any more.
    if (macros == macros_) scopes_.resize(scopes);
    if (flow == Flow::stop) break;
  }
  return Flow::on;
}

void Renderer::run_with(const Statement& statement, Scope& scope) {
  Scope& inner = new_scope(scope);
  for (const auto& [target, value] : statement.bindings) {
    assign(target, evaluate(*value, scope), inner, statement.place);
  }
  run_body(statement.body, inner);
}

void Renderer::run_call_block(const Statement& statement, Scope& scope) {
  const Expression& call = *statement.value;
  const Value callee = evaluate(*call.items[0], scope);
  need_defined(callee);
  if (!callee.is(Kind::function)) raise("'", type_name(callee), "' object is not callable");
  Arguments arguments = evaluate_arguments(call, scope);
  arguments.named.emplace_back("caller", macro_of(statement, scope));
  print(callee.function()->call(arguments));
}

void Renderer::assign(const Target& target, Value value, Scope& scope, Place place) {
  place_ = place;
  if (!target.member.empty()) {
    const Value* object = scope.find(target.names[0]);
    if (object == nullptr || !object->is(Kind::object)) raise("'", target.names[0], "' is no namespace");
    return object->object()->assign(target.member, std::move(value));
  }
  if (!target.is_tuple) return scope.set(target.names[0], std::move(value));
  need_defined(value);
  std::vector<Value> items = items_of(value);
  if (items.size() != target.names.size()) {
    raise("cannot unpack ", items.size(), " values into ", target.names.size(), " names");
  }
  for (size_t i = 0; i < items.size(); ++i) scope.set(target.names[i], std::move(items[i]));
}

Value Renderer::block_text(const Statement& statement, Scope& scope) {
  Capture capture(*this);
  run_body(statement.body, new_scope(scope));
  Value text(capture.take());
  if (statement.value == nullptr) return text;
  Scope inner;
  inner.outer = &scope;
  inner.set(kBlockText, std::move(text));
  return evaluate(*statement.value, inner);
}

Value Renderer::call_macro(const Statement& statement, const Scope& scope, const Arguments& arguments) {
  const Depth depth(*this);
  const Place place = place_;
  Scope& inner = new_scope(scope);
  const std::string name = statement.kind == StatementKind::call_block ? "caller" : statement.text;
  const auto& parameters = statement.parameters;
  if (arguments.positional.size() > parameters.size() && !statement.takes_varargs) {
    raise("macro '", name, "' takes not more than ", parameters.size(), " argument(s)");
  }
  Dict others;
  for (const auto& argument : arguments.named) {
    const std::string& key = argument.first;
    const Value& value = argument.second;
    const bool declared = std::any_of(parameters.begin(), parameters.end(),
                                      [&](const Parameter& parameter) { return parameter.name == key; });
    if (declared) continue;
    if (key == "caller") {
      inner.set(key, value);
    } else if (statement.takes_kwargs) {
      others.set(Value(key), value);
    } else {
      raise("macro '", name, "' takes no keyword argument '", key, "'");
    }
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (const Value* given = arguments.find(i, parameter.name)) {
      inner.set(parameter.name, *given);
    } else if (parameter.fallback != nullptr) {
      inner.set(parameter.name, evaluate(*parameter.fallback, inner));
    } else {
      inner.set(parameter.name, Value::undefined(cat("parameter '", parameter.name, "' was not provided")));
    }
  }
  if (statement.takes_kwargs) inner.set("kwargs", std::move(others));
  if (statement.takes_varargs) {
    const size_t first = std::min(parameters.size(), arguments.positional.size());
    inner.set("varargs", Value::tuple({arguments.positional.begin() + static_cast<ptrdiff_t>(first),
                                       arguments.positional.end()}));
  }
  Capture capture(*this);
  run_body(statement.body, inner);
  place_ = place;
  return {capture.take()};
}

}  // namespace glint::jinja
