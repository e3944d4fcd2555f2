// Oniguruma patterns (Ruby's dialect, what the `tokenizers` library compiles) rewritten for PCRE2.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "text/unicode_classes.h"

namespace glint {

/// The members of a PCRE2 class such as "\\p{L}" in this machine's PCRE2, whose Unicode version is another
/// one.
using PcreMembers = std::function<CodePointSet(const std::string& pcre_class)>;

/// The same language in PCRE2's syntax (options UTF, UCP): classes are widened to the library's Unicode
/// version,
/// `{n,m}+` becomes a repeated group as in Ruby, \uHHHH becomes \x{HHHH}. Throws unsupported, naming the
/// construct, for everything whose meaning might differ. `what` names the file in errors.
std::string translate_to_pcre(std::string_view pattern, std::string_view what,
                              const PcreMembers& pcre_members);

}  // namespace glint
