// The values of `glint serve`'s flags, checked before anything is opened. Errors are one line that names the
// flag.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace glint {

/// Names as given without duplicates; `path` if there are none. Throws bad_input for an empty name.
std::vector<std::string> served_names(const std::vector<std::string>& names, const std::string& path);

/// Drafts a step that --speculative-config asks for, 0 for an empty object. Throws bad_input for an unknown
/// method or key, a number outside 1 to 8, a method without number or a number without method.
int64_t speculative_tokens(const OrderedJson& config);

}  // namespace glint
