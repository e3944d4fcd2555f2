// A JSON schema in the form that xgrammar enforces whole.
#pragma once

#include <string>
#include <string_view>

namespace glint {

/// `text` is a schema that check_schema_text() let pass. What comes accepts nothing that `text` refuses:
/// - names that are `required` and not declared become properties, of the schema of additionalProperties if
/// there is
///   one; xgrammar looks at the declared ones alone;
/// - the formats `date`, `date-time` and `ipv4` become patterns that hold real days (of the years 1000 to
/// 9999, times
///   with an offset) and no leading zeros.
/// Throws bad_input, naming the place, unless `lenient`: where a required name is forbidden, or stands beside
/// patternProperties or without `"type": "object"`; for propertyNames or patternProperties beside properties.
std::string enforceable_schema(std::string_view text, bool lenient);

}  // namespace glint
