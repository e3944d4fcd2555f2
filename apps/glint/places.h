// The folders and files that flags name besides the model.
#pragma once

#include "flags/serve_flags.h"

namespace glint {

/// Whether a server can use them: found out before an address is bound and a weight is read. Makes the folder
/// of --kv-disk-dir. Throws bad_input, not_found.
void check_places(const ServeFlags& flags);

}  // namespace glint
