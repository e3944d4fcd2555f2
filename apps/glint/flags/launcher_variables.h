// The environment that start scripts of other engines leave: what a launcher says of its processes, and
// variables that mean something to vLLM or SGLang and nothing here.
#pragma once

#include <string>
#include <vector>

#include "base/flags/flag_parse.h"

namespace glint {

/// torchrun's RANK, LOCAL_RANK and WORLD_SIZE. Throws bad_input if they say that this is one of several
/// processes: each would serve the whole model on the same port.
void check_launcher(const Environment& environment);

/// One line for each reason, with the variables among `set` that `table` does not read: "VLLM_PORT has no
/// effect in this engine (the port is --port)". Variables of other programs are not looked at.
std::vector<std::string> variables_without_effect(const FlagTable& table,
                                                  const std::vector<std::string>& set);

/// Names of what is set in this process's environment to more than nothing, sorted.
std::vector<std::string> environment_names();

}  // namespace glint
