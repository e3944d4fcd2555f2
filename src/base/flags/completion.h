// Completions for bash, zsh and fish, of commands that a FlagTable describes and of others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/flags/flag_table.h"

namespace glint {

struct CompletedFlag {
  std::vector<std::string> names;  // with dashes: "--dtype", "-tp"
  bool takes_value = false;
  std::vector<std::string> choices;
  std::string help;  // one line
};

struct CompletedCommand {
  std::string name;  // "serve", "bench cpu"
  std::string help;
  std::vector<CompletedFlag> flags;
};

/// The names of the table's flags; those without effect are known to the parser but not offered.
CompletedCommand completed_command(const FlagTable& table);

/// The script for `shell`, to be sourced or put where the shell looks for it. Throws bad_input for other
/// shells than bash, zsh and fish.
std::string completion_script(std::string_view shell, std::string_view program,
                              const std::vector<CompletedCommand>& commands);

}  // namespace glint
