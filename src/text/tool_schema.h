// The tools of a request, as the output parser needs them: names, and which JSON types each property may
// have.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"

namespace glint {

/// A set of JSON types. Order of the bits is the order in which a value is tried.
enum JsonType : uint8_t {
  kTypeNull = 1,
  kTypeInteger = 2,
  kTypeNumber = 4,
  kTypeBoolean = 8,
  kTypeObject = 16,
  kTypeArray = 32,
  kTypeString = 64,
  kTypeOther = 128,  // a type name that nobody knows
};
using JsonTypes = uint8_t;

/// The types that the property schema `schema` allows: `type` (a name or a list of names; aliases such as
/// int64, float, str, dict, list and bool are mapped), the types of the members of `enum` (or else that of `const`), and those of every
/// branch of anyOf, oneOf and allOf. A local `$ref` ("#/..." into `root`, the whole parameters object) is
/// followed. A schema, or a branch, that says nothing counts as string.
JsonTypes schema_types(const OrderedJson& schema, const OrderedJson& root);

/// One tool of the request.
struct ToolDefinition {
  std::string name;
  OrderedJson description;  // string or null
  OrderedJson parameters;   // object or null
  bool defer_loading = false;
};

/// Look-ups for the output parser; built once per request, immutable afterwards.
class ToolSet {
 public:
  ToolSet() = default;
  explicit ToolSet(std::span<const ToolDefinition> tools);

  [[nodiscard]] bool empty() const { return tools_.empty(); }
  [[nodiscard]] bool contains(std::string_view name) const;
  /// Types of a property. kTypeString for an undeclared key or an unknown tool. Of tools with one name the
  /// first counts.
  [[nodiscard]] JsonTypes types_of(std::string_view tool, std::string_view key) const;

 private:
  using Properties = std::unordered_map<std::string, JsonTypes>;
  std::unordered_map<std::string, Properties> tools_;
};

}  // namespace glint
