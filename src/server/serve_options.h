// The values of `glint serve`'s flags, checked before anything is opened. Errors are one line that names the
// flag.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace glint {

/// "131072", "1k", "25.6k", "1m" (decimal: 1000, 25600, 1000000), "1K", "512K", "1M" (binary; no fractions),
/// likewise g, t, G, T. Throws bad_input naming `flag`; values below 1 or above 2^62 too.
int64_t parse_human_integer(std::string_view flag, std::string_view text);

/// The same, or "auto" or "-1": std::nullopt.
std::optional<int64_t> parse_human_integer_or_auto(std::string_view flag, std::string_view text);

/// Throws bad_input, "argument FLAG: invalid choice: 'x' (choose from ...)", if `text` is none of `choices`.
void check_choice(std::string_view flag, std::string_view text, const std::vector<std::string>& choices);

/// A JSON object for --default-chat-template-kwargs; null if `text` is empty. Throws bad_input.
OrderedJson parse_json_object_flag(std::string_view flag, std::string_view text);

/// Names as given without duplicates; `path` if there are none. Throws bad_input for an empty name.
std::vector<std::string> served_names(const std::vector<std::string>& names, const std::string& path);

/// Drafts a step that the --speculative-config flags ask for, 0 without any: the JSON object and the dotted
/// flags merge, the dotted ones win. Throws bad_input for an unknown method or key, a number outside 1 to 8,
/// a method without number or a number without method.
int64_t speculative_tokens(std::string_view config_json, std::string_view method, std::string_view tokens);

}  // namespace glint
