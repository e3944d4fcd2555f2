// From the flags about drafting, in either vocabulary, to a number of drafts.
#pragma once

#include "flags/serve_flags.h"

namespace glint {

/// Drafts a step: what --speculative-config says, or --speculative-algorithm with its numbers: a chain of
/// --speculative-num-steps drafts. 0 without any. Throws bad_input if they contradict each other or name what
/// this engine does not draft with.
int64_t drafts_asked(const ServeFlags& flags);

}  // namespace glint
