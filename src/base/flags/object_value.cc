#include "base/flags/object_value.h"

#include "base/error.h"

namespace glint {

namespace {

OrderedJson json_or_text(std::string_view text) {
  try {
    return parse_ordered_json(text, "value");
  } catch (const Error&) {
    return std::string(text);
  }
}

/// "a,b" as values.
std::vector<OrderedJson> comma_parts(std::string_view text) {
  std::vector<OrderedJson> parts;
  for (;;) {
    const size_t comma = text.find(',');
    parts.push_back(json_or_text(text.substr(0, comma)));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

void ObjectValue::merge(const Assignment& said) {
  if (!said.path.empty()) return set_path(said);
  const std::string wanted = said.source + ": expected a JSON object, {\"name\": value, ...}";
  const OrderedJson whole = parse_ordered_json(said.texts.front(), wanted);
  if (!whole.is_object()) fail(ErrorKind::bad_input, wanted);
  for (const auto& [key, value] : whole.items()) check_key(key, said);
  merge_object(value_, whole, said, "");
}

void ObjectValue::check_key(std::string_view key, const Assignment& said) const {
  if (flag_.object_keys.empty()) return;
  std::vector<std::string> names;
  for (const FlagKey& known : flag_.object_keys) names.push_back(known.name);
  std::string list;
  for (const std::string& name : names) {
    if (name == key) return;
    list += (list.empty() ? "" : ", ") + name;
  }
  const std::vector<std::string> similar = similar_names(key, names);
  fail(ErrorKind::bad_input, said.source, ": unknown key ", key,
       similar.empty() ? std::string() : cat(" (did you mean ", similar.front(), "?)"), "; known are ", list);
}

void ObjectValue::merge_object(OrderedJson& into, const OrderedJson& from, const Assignment& said,
                               const std::string& at) {
  for (const auto& [key, value] : from.items()) {
    const std::string place = at.empty() ? key : cat(at, ".", key);
    if (value.is_object() && into.contains(key) && into[key].is_object()) {
      merge_object(into[key], value, said, place);
    } else {
      set(into[key], value, said, place);
    }
  }
}

void ObjectValue::set(OrderedJson& place, OrderedJson value, const Assignment& said, const std::string& at) {
  if (!place.is_null() && place != value) {
    warnings_.push_back(cat("argument --", said.name, ".", at, ": given more than once; the last one ",
                            value.dump(), " counts"));
  }
  place = std::move(value);
}

void ObjectValue::set_path(const Assignment& said) {
  std::string_view path = said.path;
  const bool append = path.ends_with('+');
  if (append) path.remove_suffix(1);
  constexpr int kDepthMax = 16;
  OrderedJson* place = &value_;
  int depth = 0;
  for (std::string_view rest = path;;) {
    const size_t dot = rest.find('.');
    const std::string key(rest.substr(0, dot));
    if (key.empty()) fail(ErrorKind::bad_input, said.source, ": an empty key");
    if (++depth > kDepthMax) fail(ErrorKind::bad_input, said.source, ": more than ", kDepthMax, " keys deep");
    if (place == &value_) check_key(key, said);
    if (place->is_null()) *place = OrderedJson::object();
    if (!place->is_object()) {
      fail(ErrorKind::bad_input, said.source, ": ", key, " would be a key of ", place->dump(),
           ", which is no object");
    }
    place = &(*place)[key];
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  if (!append) return set(*place, json_or_text(said.texts.front()), said, std::string(path));
  if (place->is_null()) *place = OrderedJson::array();
  if (!place->is_array())
    fail(ErrorKind::bad_input, said.source, ": ", place->dump(), " is no list to add to");
  for (OrderedJson& part : comma_parts(said.texts.front())) place->push_back(std::move(part));
}

}  // namespace glint
