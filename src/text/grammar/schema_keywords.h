// Keywords of JSON Schema under which other schemas stand.
#pragma once

#include <array>

namespace glint {

/// They hold one schema, a list of them, or a map of them.
inline constexpr std::array kSchemaOfOne = {"additionalProperties", "unevaluatedProperties",
                                            "propertyNames",        "items",
                                            "unevaluatedItems",     "additionalItems"};
inline constexpr std::array kSchemaLists = {"anyOf", "oneOf", "allOf", "prefixItems"};
inline constexpr std::array kSchemaMaps = {"properties", "patternProperties", "$defs", "definitions"};

}  // namespace glint
