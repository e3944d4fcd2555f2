// The subcommands of `glint`, one source file each. A command adds itself to the program with its flags and a
// callback that runs it; the callback throws glint::Error, and main turns that into one line and an exit
// status.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace glint {

/// A check for flags that take a whole number: digits only, from `min` to `max`.
CLI::Validator whole_number(uint64_t min, uint64_t max);
/// The same with a sign.
CLI::Validator integer(int64_t min, int64_t max);

void add_make_checkpoint(CLI::App& program);
void add_inspect(CLI::App& program);
void add_quantize(CLI::App& program);
void add_verify_checkpoint(CLI::App& program);
void add_serve(CLI::App& program);
void add_plan(CLI::App& program);
void add_text(CLI::App& program);
void add_trace(CLI::App& program);
void add_bench(CLI::App& program);
/// A part of `bench`.
void add_bench_quantize(CLI::App& group);

}  // namespace glint
