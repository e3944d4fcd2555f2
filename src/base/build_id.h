// Which build of this program runs.
#pragma once

#include <string>

namespace glint {

/// The linker's build id in hexadecimal: equal for equal programs only. Empty if the program carries none.
std::string build_id();

}  // namespace glint
