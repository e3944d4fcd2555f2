// The request fields that ask for an answer of a certain form: response_format, structured_outputs, and the
// older and other servers' names for the same.
#pragma once

#include <optional>

#include "server/fields.h"
#include "server/generation_options.h"

namespace glint {

/// Notes wrong types in `fields`; nothing else.
void check_structured_types(Fields& fields);

/// What the request asks for, if anything. response_format {type: text | json_object | json_schema};
/// structured_outputs {json, json_object, regex, choice, grammar}; vLLM's guided_json, guided_regex,
/// guided_choice, guided_grammar; SGLang's json_schema, regex, ebnf. Throws ApiRefusal for a malformed one
/// and for more than one.
std::optional<StructuredOutput> parse_structured_output(Fields& fields);

}  // namespace glint
