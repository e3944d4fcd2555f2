// From the words of a command line, the file of --config and the environment to the bound variables.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/flags/flag_table.h"

namespace glint {

struct FlagReport {
  std::optional<std::string> help;    // the topic of --help, empty for --help alone: nothing was stored
  std::vector<std::string> warnings;  // one line each
  std::map<std::string, std::string> given;  // flag's name -> where it was said ("argument --tp-size")

  [[nodiscard]] bool has(std::string_view flag) const { return given.contains(std::string(flag)); }
};

/// The value of a variable, null if it is not set. std::getenv is one.
using Environment = std::function<const char*(const char*)>;

/// Reads `words`, then the file that the flag "config" names, then the environment: the first of the three
/// that says something of a flag counts; keys of objects merge over the first two. Throws bad_input,
/// not_found or unsupported, "argument --port: expected ...".
FlagReport parse_flags(const FlagTable& table, const std::vector<std::string>& words,
                       const Environment& environment);

}  // namespace glint
