#include "text/jinja/loop_object.h"

#include "text/jinja/builtins.h"

namespace glint::jinja {

Value LoopObject::member(std::string_view name) {
  const auto at = static_cast<int64_t>(at_);
  const auto length = static_cast<int64_t>(items_.size());
  if (name == "index") return {at + 1};
  if (name == "index0") return {at};
  if (name == "revindex") return {length - at};
  if (name == "revindex0") return {length - at - 1};
  if (name == "first") return {at == 0};
  if (name == "last") return {at + 1 == length};
  if (name == "length") return {length};
  if (name == "depth") return {int64_t{1}};
  if (name == "depth0") return {int64_t{0}};
  if (name == "previtem") return at > 0 ? items_[at_ - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return at + 1 < length ? items_[at_ + 1] : Value::undefined("there is no next item");
  if (name == "cycle") {
    return make_function("cycle", [at](const Arguments& arguments) {
      if (arguments.positional.empty()) raise("no items for cycling given");
      return arguments.positional[static_cast<size_t>(at) % arguments.positional.size()];
    });
  }
  if (name == "changed") {
    return make_function("changed", [this](const Arguments& arguments) {
      Value now = Value::tuple(arguments.positional);
      const bool changed = last_changed_ == nullptr || !equal(*last_changed_, now);
      last_changed_ = std::make_shared<Value>(std::move(now));
      return Value(changed);
    });
  }
  return Value::undefined(cat("'loop' has no attribute '", name, "'"));
}

void LoopObject::assign(std::string_view /*name*/, Value /*value*/) {
  raise("'loop' cannot be assigned to");
}

std::string LoopObject::repr() const {
  return cat("<LoopContext ", at_ + 1, "/", items_.size(), ">");
}

}  // namespace glint::jinja
