// Texts of which exactly one is to be written, token by token.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/grammar/token_table.h"

namespace glint {

/// Sets the bits of the tokens that lead from `written` towards `text`; no more than those that make one of
/// its beginnings. True if `written` is all of `text` already.
bool allow_towards(const TokenTable& table, std::string_view text, std::string_view written, TokenMask& mask);

}  // namespace glint
