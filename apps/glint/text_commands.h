// The subcommands of `glint text`: JSON lines in, one JSON result a line out.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>

namespace glint {

/// The flags that they share.
struct TextFlags {
  std::string model;  // a model folder; empty: none given
  std::string file;   // empty or "-": standard input
};

/// Adds `name` to the group with --model and FILE; `run` gets the flags.
CLI::App* add_text_command(CLI::App& text, const std::string& name, const std::string& description,
                           const std::function<void(const TextFlags&)>& run);

/// Makes the result of one input line. `place` names the line in errors ("FILE line 7").
using LineHandler = std::function<std::string(std::string_view line, std::string_view place)>;

/// Writes handle(line) to standard output for each line of the input that is not blank. The first error ends
/// the run.
void for_each_line(const TextFlags& flags, const LineHandler& handle);

void add_text_tokenize(CLI::App& text);
void add_text_render(CLI::App& text);
void add_text_parse(CLI::App& text);

}  // namespace glint
