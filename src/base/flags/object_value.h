// The value of an object flag: whole JSON and dotted keys, merged in the order in which they were said.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/flags/assignment.h"
#include "base/json.h"

namespace glint {

class ObjectValue {
 public:
  ObjectValue(const Flag& flag, std::vector<std::string>& warnings) : flag_(flag), warnings_(warnings) {}

  /// A whole object is merged key by key; a dotted key sets its place; a key that ends in '+' adds the text's
  /// comma-separated parts to a list. A text is JSON if it parses, else a string. Throws bad_input for a
  /// whole that is no object, an unknown key of a flag that names its keys, or a path through a value that
  /// is no object.
  void merge(const Assignment& said);
  [[nodiscard]] const OrderedJson& value() const { return value_; }

 private:
  void merge_object(OrderedJson& into, const OrderedJson& from, const Assignment& said,
                    const std::string& at);
  void set(OrderedJson& place, OrderedJson value, const Assignment& said, const std::string& at);
  void set_path(const Assignment& said);
  void check_key(std::string_view key, const Assignment& said) const;

  const Flag& flag_;
  std::vector<std::string>& warnings_;
  OrderedJson value_ = OrderedJson::object();
};

}  // namespace glint
