// `loop` inside of a for.
#pragma once

#include <string>
#include <vector>

#include "text/jinja/value.h"

namespace glint::jinja {

class LoopObject final : public Object {
 public:
  explicit LoopObject(std::vector<Value> items) : items_(std::move(items)) {}

  [[nodiscard]] bool done() const { return at_ >= items_.size(); }
  [[nodiscard]] const Value& current() const { return items_[at_]; }
  void advance() { ++at_; }

  [[nodiscard]] Value member(std::string_view name) override;
  void assign(std::string_view name, Value value) override;
  [[nodiscard]] std::string repr() const override;

 private:
  std::vector<Value> items_;
  size_t at_ = 0;
  std::shared_ptr<Value> last_changed_;  // what `changed` saw last
};

}  // namespace glint::jinja
