// Which JSON schemas are enforced, and which are refused before anything is compiled.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace glint {

inline constexpr size_t kSchemaBytesMax = size_t{256} << 10;
inline constexpr int64_t kSchemaDepthMax = 64;
inline constexpr int64_t kSchemaNodesMax = 5000;    // schemas inside the schema
inline constexpr int64_t kSchemaValuesMax = 10000;  // of all enum and const together
inline constexpr int64_t kSchemaCountMax = 1000;    // the largest of minItems, maxProperties and the like
inline constexpr int64_t kMinLengthMax = 256;
inline constexpr int64_t kMaxLengthMax = 1'000'000;

/// Throws bad_input, naming the place in the schema ("#/properties/age") and what is wrong: not a schema,
/// beyond a limit, a reference that leads nowhere or nowhere but to itself; and unless `lenient` a keyword
/// that would not be enforced. Keywords that assert nothing (title, default, ...) and unknown ones are
/// ignored, as JSON Schema wants.
void check_schema_text(std::string_view text, bool lenient);

}  // namespace glint
