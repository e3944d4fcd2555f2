// --help, the man page and the completions of the shells, all from the table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/flags/flag_table.h"

namespace glint {

/// How a command line is read, for users.
inline constexpr std::string_view kFlagRules =
    "A flag may be shortened to what only it begins with; '_' is '-'; --x=VALUE is --x VALUE; of a flag "
    "given "
    "twice the last one counts. --help=GROUP, --help=WORD and --help=listgroup show less.";

/// The text of --help (`topic` empty or "all": everything) or --help=TOPIC: "listgroup", a group's name or
/// alias, or a word that flags' names hold. Throws bad_input if the topic names nothing. Lines keep to
/// `width` columns where words allow.
std::string help_text(const FlagTable& table, std::string_view topic, int width = 100);

/// "-tp N, --tensor-parallel-size N, --tp-size, --tp".
std::string flag_heading(const Flag& flag);

/// What there is to say of a flag: its help, then choices, keys, default, variables, in one paragraph.
std::string flag_paragraph(const Flag& flag);

/// Breaks at spaces so that no line is longer than `width`, `indent` included; ends in a newline.
std::string wrapped(std::string_view text, int indent, int width);

}  // namespace glint
