#include "text/grammar/schema_check.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "text/grammar/grammar_limits.h"
#include "text/grammar/schema_keywords.h"

namespace glint {

namespace {

constexpr std::array kCounts = {"minLength", "maxLength",     "minItems",
                                "maxItems",  "minProperties", "maxProperties"};
/// Whatever stands beside one of these is not looked at by the library.
constexpr std::array kAlone = {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};
/// Assertions, all that are enforced somewhere.
constexpr std::array kAssertions = {"type",
                                    "enum",
                                    "const",
                                    "anyOf",
                                    "oneOf",
                                    "allOf",
                                    "$ref",
                                    "properties",
                                    "required",
                                    "additionalProperties",
                                    "propertyNames",
                                    "patternProperties",
                                    "minProperties",
                                    "maxProperties",
                                    "unevaluatedProperties",
                                    "items",
                                    "prefixItems",
                                    "minItems",
                                    "maxItems",
                                    "unevaluatedItems",
                                    "minimum",
                                    "maximum",
                                    "exclusiveMinimum",
                                    "exclusiveMaximum",
                                    "multipleOf",
                                    "minLength",
                                    "maxLength",
                                    "pattern",
                                    "additionalItems"};
/// Assertions that nobody enforces here.
constexpr std::array kRefused = {
    "not",          "if",          "then",     "else",        "dependentRequired", "dependentSchemas",
    "dependencies", "uniqueItems", "contains", "minContains", "maxContains",       "$dynamicRef",
    "$recursiveRef"};

class SchemaCheck {
 public:
  SchemaCheck(const OrderedJson& root, bool lenient) : root_(root), lenient_(lenient) {}

  void check(const OrderedJson& schema, const std::string& place, int64_t depth) {
    if (depth > kSchemaDepthMax) refuse(place, "the schema is nested deeper than ", kSchemaDepthMax);
    if (++nodes_ > kSchemaNodesMax) refuse(place, "the schema has more than ", kSchemaNodesMax, " parts");
    if (schema.is_boolean()) return;
    if (!schema.is_object()) refuse(place, "a schema must be an object or a boolean");
    check_values(schema, place);
    check_reference(schema, place);
    if (!lenient_) check_enforceable(schema, place);
    for (const char* name : kSchemaOfOne) {
      const auto found = schema.find(name);
      if (found == schema.end() || found->is_array()) continue;  // items as a list: the library's own refusal
      check(*found, place + "/" + name, depth + 1);
    }
    for (const char* name : kSchemaLists) {
      const auto found = schema.find(name);
      if (found == schema.end()) continue;
      if (!found->is_array() || found->empty()) refuse(place + "/" + name, "expected a list of schemas");
      for (size_t i = 0; i < found->size(); ++i) check((*found)[i], cat(place, "/", name, "/", i), depth + 1);
    }
    for (const char* name : kSchemaMaps) {
      const auto found = schema.find(name);
      if (found == schema.end()) continue;
      if (!found->is_object()) refuse(place + "/" + name, "expected an object of schemas");
      for (const auto& [key, value] : found->get_ref<const OrderedJson::object_t&>()) {
        if (std::string_view(name) == "patternProperties") check_regex_text(key);
        check(value, cat(place, "/", name, "/", key), depth + 1);
      }
    }
  }

 private:
  template <class... Parts>
  [[noreturn]] static void refuse(const std::string& place, const Parts&... parts) {
    fail(ErrorKind::bad_input, "the schema at ", place.substr(0, 200), ": ", parts...);
  }

  void check_values(const OrderedJson& schema, const std::string& place) {
    for (const char* name : kCounts) {
      const auto found = schema.find(name);
      if (found == schema.end()) continue;
      if (!found->is_number_integer() || *found < 0)
        refuse(place + "/" + name, "expected a number of at least 0");
      const std::string_view count = name;
      const int64_t most = count == "minLength"   ? kMinLengthMax
                           : count == "maxLength" ? kMaxLengthMax
                                                  : kSchemaCountMax;
      if (*found <= most) continue;
      refuse(place + "/" + name, "at most ", most, " can be counted",
             count.starts_with("max") ? "; leave it out for no bound" : "");
    }
    if (const auto found = schema.find("enum"); found != schema.end()) {
      if (!found->is_array() || found->empty())
        refuse(place + "/enum", "expected a list of values, not empty");
      values_ += static_cast<int64_t>(found->size());
    }
    if (values_ > kSchemaValuesMax)
      refuse(place, "the schema's enums hold more than ", kSchemaValuesMax, " values");
    for (const char* name : {"pattern", "format"}) {
      const auto found = schema.find(name);
      if (found == schema.end()) continue;
      if (!found->is_string()) refuse(place + "/" + name, "expected a string");
      if (std::string_view(name) == "pattern") check_regex_text(found->get_ref<const std::string&>());
    }
    if (const auto found = schema.find("required"); found != schema.end()) {
      const bool texts =
          found->is_array() && std::all_of(found->begin(), found->end(),
                                           [](const OrderedJson& value) { return value.is_string(); });
      if (!texts) refuse(place + "/required", "expected a list of names");
    }
  }

  void check_enforceable(const OrderedJson& schema, const std::string& place) {
    for (const char* name : kRefused) {
      const auto found = schema.find(name);
      if (found == schema.end() || *found == false) continue;
      refuse(place, name, " cannot be enforced; leave it out");
    }
    const auto alone =
        std::find_if(kAlone.begin(), kAlone.end(), [&](const char* name) { return schema.contains(name); });
    if (alone == kAlone.end()) return;
    for (const char* name : kAssertions) {
      if (std::string_view(name) == *alone || !schema.contains(name)) continue;
      const bool typed_values = std::string_view(name) == "type" &&
                                (*alone == std::string_view("const") || *alone == std::string_view("enum"));
      if (typed_values) {
        check_typed_values(schema, place);
        continue;
      }
      refuse(place, name, " beside ", *alone, " cannot be enforced; write it into what ", *alone, " holds");
    }
  }

  /// `type` beside enum or const is no loss if all values are of the type.
  void check_typed_values(const OrderedJson& schema, const std::string& place) {
    const auto one = schema.find("const");
    if (one != schema.end()) return check_typed(*one, schema["type"], place);
    for (const OrderedJson& value : schema["enum"]) check_typed(value, schema["type"], place);
  }
  static void check_typed(const OrderedJson& value, const OrderedJson& type, const std::string& place) {
    const auto is = [&value](const OrderedJson& name) {
      if (name == "string") return value.is_string();
      if (name == "integer")
        return value.is_number_integer() ||
               (value.is_number_float() &&
                value.get<double>() == static_cast<double>(static_cast<int64_t>(value.get<double>())));
      if (name == "number") return value.is_number();
      if (name == "boolean") return value.is_boolean();
      if (name == "null") return value.is_null();
      if (name == "array") return value.is_array();
      return name == "object" && value.is_object();
    };
    const bool fits = type.is_array() ? std::any_of(type.begin(), type.end(), is) : is(type);
    if (!fits)
      refuse(place, "the value ", dump_json(value).substr(0, 60), " is not of the type beside it; remove it");
  }

  /// Follows a chain of references that consist of nothing else.
  void check_reference(const OrderedJson& schema, const std::string& place) {
    const OrderedJson* at = &schema;
    std::set<const OrderedJson*> seen;
    for (auto found = at->find("$ref"); found != at->end(); found = at->find("$ref")) {
      if (!found->is_string()) refuse(place + "/$ref", "expected a string");
      const auto& text = found->get_ref<const std::string&>();
      if (!seen.insert(at).second)
        refuse(place + "/$ref", "\"", text.substr(0, 100), "\" leads back to itself");
      at = resolve(text);
      if (at == nullptr) {
        refuse(place + "/$ref", "\"", text.substr(0, 100),
               "\" leads nowhere; references must begin with # and stay in the schema");
      }
      if (!at->is_object()) return;
    }
  }

  const OrderedJson* resolve(const std::string& reference) const {
    if (!reference.starts_with('#')) return nullptr;
    try {
      const OrderedJson::json_pointer pointer(reference.substr(1));
      return root_.contains(pointer) ? &root_.at(pointer) : nullptr;
    } catch (const OrderedJson::exception&) {
      return nullptr;
    }
  }

  const OrderedJson& root_;
  bool lenient_;
  int64_t nodes_ = 0;
  int64_t values_ = 0;
};

}  // namespace

void check_schema_text(std::string_view text, bool lenient) {
  if (text.size() > kSchemaBytesMax) {
    fail(ErrorKind::bad_input, "the schema has ", text.size(), " bytes, at most ", kSchemaBytesMax,
         " are allowed");
  }
  const OrderedJson root = parse_ordered_json(text, "the schema", {.depth_max = 128});
  SchemaCheck(root, lenient).check(root, "#", 0);
}

}  // namespace glint
