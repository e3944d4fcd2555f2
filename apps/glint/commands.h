// The subcommands of `glint`, one source file each. A command adds itself to the program with its flags and a
// callback that runs it; the callback throws glint::Error, and main turns that into one line and an exit
// status.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace glint {

/// A check for flags that take a whole number: digits only, from `min` to `max`.
CLI::Validator whole_number(uint64_t min, uint64_t max);

void add_chat(CLI::App& program);
void add_make_checkpoint(CLI::App& program);
void add_inspect(CLI::App& program);
void add_quantize(CLI::App& program);
void add_verify(CLI::App& program);
void add_verify_checkpoint(CLI::App& program);
void add_download(CLI::App& program);
void add_text(CLI::App& program);
void add_trace(CLI::App& program);
void add_bench(CLI::App& program);
/// The last: it lists the others.
void add_help(CLI::App& program);
/// A part of `bench`.
void add_bench_quantize(CLI::App& group);

/// The commands that share a table of flags (flags/serve_flags.h) and do without CLI11.
bool is_serve_form(std::string_view word);
void run_serve_form(std::string_view form, const std::vector<std::string>& words);

}  // namespace glint
