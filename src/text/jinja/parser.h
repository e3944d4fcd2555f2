// From tokens to a parsed template. Syntax and precedence are Jinja's.
#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace glint::jinja {

/// Throws bad_input "`what`:line:column: ..." for a syntax error, and unsupported for what this interpreter
/// does not have: unknown statements, filters and tests, recursive loops, includes and inheritance.
Body parse(std::string_view source, std::string_view what);

}  // namespace glint::jinja
