#include "text/grammar/schema_form.h"

#include "base/error.h"
#include "base/json.h"
#include "text/grammar/schema_keywords.h"

namespace glint {

namespace {

constexpr std::string_view kDate =
    "([1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
    "02-(0[1-9]|1[0-9]|2[0-8]))|"
    "([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)-02-29)";
constexpr std::string_view kTime =
    "T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
constexpr std::string_view kOctet = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])";

/// The pattern that stands for a format; empty: xgrammar's own is right.
std::string pattern_of(const std::string& format) {
  if (format == "date") return cat("^", kDate, "$");
  if (format == "date-time") return cat("^", kDate, kTime, "$");
  if (format == "ipv4") return cat("^(", kOctet, "\\.){3}", kOctet, "$");
  return {};
}

class SchemaForm {
 public:
  explicit SchemaForm(bool lenient) : lenient_(lenient) {}

  void rewrite(OrderedJson& schema, const std::string& place) {
    if (!schema.is_object()) return;
    rewrite_format(schema);
    if (!lenient_) check_names(schema, place);
    declare_required(schema, place);
    for (const char* name : kSchemaOfOne) {
      if (schema.contains(name)) rewrite(schema[name], cat(place, "/", name));
    }
    for (const char* name : kSchemaLists) {
      if (!schema.contains(name)) continue;
      for (size_t i = 0; i < schema[name].size(); ++i)
        rewrite(schema[name][i], cat(place, "/", name, "/", i));
    }
    for (const char* name : kSchemaMaps) {
      if (!schema.contains(name)) continue;
      for (auto& [key, value] : schema[name].get_ref<OrderedJson::object_t&>()) {
        rewrite(value, cat(place, "/", name, "/", key));
      }
    }
  }

 private:
  template <class... Parts>
  [[noreturn]] static void refuse(const std::string& place, const Parts&... parts) {
    fail(ErrorKind::bad_input, "the schema at ", place.substr(0, 200), ": ", parts...);
  }

  static void rewrite_format(OrderedJson& schema) {
    const auto found = schema.find("format");
    if (found == schema.end() || !found->is_string() || schema.contains("pattern")) return;
    const std::string pattern = pattern_of(found->get_ref<const std::string&>());
    if (pattern.empty()) return;
    schema.erase("format");
    schema["pattern"] = pattern;
  }

  static bool has_properties(const OrderedJson& schema) {
    const auto found = schema.find("properties");
    return found != schema.end() && !found->empty();
  }

  static void check_names(const OrderedJson& schema, const std::string& place) {
    if (!has_properties(schema)) return;
    for (const char* name : {"propertyNames", "patternProperties"}) {
      if (!schema.contains(name)) continue;
      refuse(place, name, " beside properties cannot be enforced; leave one of them out");
    }
  }

  void declare_required(OrderedJson& schema, const std::string& place) const {
    const auto required = schema.find("required");
    if (required == schema.end() || required->empty()) return;
    const OrderedJson names = *required;
    const auto more = schema.find("additionalProperties");
    const OrderedJson value = more == schema.end() || more->is_boolean() ? OrderedJson::object() : *more;
    const bool forbidden = more != schema.end() && *more == false;
    const bool is_object = schema.contains("type") || has_properties(schema);
    for (const OrderedJson& name : names) {
      const auto& text = name.get_ref<const std::string&>();
      if (schema.contains("properties") && schema["properties"].contains(text)) continue;
      const char* why = forbidden ? "additionalProperties forbids it"
                        : schema.contains("patternProperties")
                            ? "beside patternProperties it cannot be enforced"
                        : !is_object ? "without \"type\": \"object\" it cannot be enforced"
                                     : nullptr;
      if (why == nullptr) {
        schema["properties"][text] = value;
      } else if (!lenient_) {
        refuse(place, "required names ", dump_json(name).substr(0, 60),
               ", which properties does not declare; ", why);
      }
    }
  }

  bool lenient_;
};

}  // namespace

std::string enforceable_schema(std::string_view text, bool lenient) {
  OrderedJson schema = parse_ordered_json(text, "the schema", {.depth_max = 128});
  SchemaForm(lenient).rewrite(schema, "#");
  return dump_json(schema);
}

}  // namespace glint
