// Commands that talk to a server; they read their words themselves, by a table of flags.
#pragma once

#include <string>
#include <vector>

namespace glint {

void run_bench_serve(const std::vector<std::string>& words);
/// Returns the exit status: 1 if a check failed.
int run_doctor_command(const std::vector<std::string>& words);

}  // namespace glint
