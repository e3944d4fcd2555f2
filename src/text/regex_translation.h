// Oniguruma patterns (Ruby's dialect, what the `tokenizers` library compiles) rewritten for PCRE2.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace glint {

/// Code points first..last; a range may run across the surrogates, which no text holds.
struct CodePointRange {
  char32_t first, last;
};
using CodePointSet = std::vector<CodePointRange>;

/// The members of "L", "Lu" (a general category or its first letter) or "s" (White_Space) as the library sees
/// them. Empty for any other name.
CodePointSet library_members(std::string_view property);

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
