// A manual page from a table, in roff with the man macros.
#pragma once

#include <string>
#include <string_view>

#include "base/flags/flag_table.h"

namespace glint {

/// Section 1. `title`: "glint-serve"; `version`: "glint 0.1.0"; `synopsis`: one command line a line;
/// `more`: another form's table, of which the flags that `table` lacks are shown under its own heading, or
/// null.
std::string man_page(const FlagTable& table, const FlagTable* more, std::string_view title,
                     std::string_view version, std::string_view synopsis);

}  // namespace glint
