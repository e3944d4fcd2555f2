#include "text/request_fields.h"

#include <algorithm>

#include "base/utf8.h"

namespace glint {

std::string_view json_kind(const OrderedJson& value) {
  using Type = OrderedJson::value_t;
  switch (value.type()) {
    case Type::null:
      return "null";
    case Type::boolean:
      return "a boolean";
    case Type::string:
      return "a string";
    case Type::array:
      return "a list";
    case Type::object:
      return "an object";
    default:
      return "a number";
  }
}

const OrderedJson* given(const OrderedJson& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const std::string& need_string(const OrderedJson& value, const std::string& param) {
  if (!value.is_string()) refuse(param, param, " must be a string, not ", json_kind(value));
  return value.get_ref<const std::string&>();
}

bool need_bool(const OrderedJson& value, const std::string& param) {
  if (!value.is_boolean()) refuse(param, param, " must be true or false, not ", json_kind(value));
  return value.get<bool>();
}

void need_object(const OrderedJson& value, const std::string& param) {
  if (!value.is_object()) refuse(param, param, " must be an object, not ", json_kind(value));
}

void need_list(const OrderedJson& value, const std::string& param) {
  if (!value.is_array()) refuse(param, param, " must be a list, not ", json_kind(value));
}

void need_text_or_list(const OrderedJson& value, const std::string& param) {
  if (value.is_string() || value.is_array()) return;
  refuse(param, param, " must be a string or a list, not ", json_kind(value));
}

std::string excerpt(std::string_view text) {
  constexpr size_t kBytesMax = 200;
  std::string out(text.substr(0, kBytesMax));
  if (text.size() > kBytesMax) out.resize(out.size() - utf8_unfinished_tail(out));
  std::replace_if(
      out.begin(), out.end(), [](char byte) { return static_cast<unsigned char>(byte) < 0x20; }, ' ');
  return out;
}

}  // namespace glint
