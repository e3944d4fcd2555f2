// What one source (command line, file, environment) says of one flag.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/flags/flag_table.h"

namespace glint {

struct Assignment {
  const Flag* flag = nullptr;
  std::string name;    // the flag's name as it was said, whole and without dashes, "no-" left out
  std::string source;  // "argument --tp-size", "serve.yaml:3: tp-size", "environment variable VLLM_API_KEY"
  std::string path;    // of an object's key: "num_speculative_tokens", "a.b", "list+"; empty: the whole
  std::vector<std::string> texts;
};

/// The flag that `long_name` means: a whole name, or the beginning of the names of one flag. Throws
/// bad_input in argparse's words, for an unknown one with the names that look like it.
FlagTable::Match resolve_flag(const FlagTable& table, std::string_view long_name);

/// The assignment of `name` (which may have dotted keys) without its texts. Throws bad_input.
Assignment begin_assignment(const FlagTable& table, std::string_view name, bool& on);

/// --x v, --x=v, -x v, bare words; --help is not among them. Throws bad_input.
std::vector<Assignment> read_words(const FlagTable& table, const std::vector<std::string>& words);

/// Checks the texts of `said`, refuses contradictions, and binds the result. Later ones win over earlier
/// ones of the same name; a line in `warnings` if they differ.
void settle(const Flag& flag, const std::vector<Assignment>& said, std::vector<std::string>& warnings);

}  // namespace glint
