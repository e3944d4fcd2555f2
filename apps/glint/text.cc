// glint text: what the text layer makes of a request or an answer, line by line.

#include <fstream>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "commands.h"
#include "model_option.h"
#include "text_commands.h"

namespace glint {

CLI::App* add_text_command(CLI::App& text, const std::string& name, const std::string& description,
                           const std::function<void(const TextFlags&)>& run) {
  CLI::App* const command = text.add_subcommand(name, description);
  const auto flags = std::make_shared<TextFlags>();
  const auto model = std::make_shared<ModelOption>();
  command->add_option("--model", model->name, kModelHelp);
  add_model_options(*command, *model);
  command->add_option("FILE", flags->file, "JSON lines; standard input if absent or -");
  command->callback([flags, model, run] {
    if (!model->name.empty()) flags->model = find_model(*model, ModelFiles::text).folder;
    run(*flags);
  });
  return command;
}

void for_each_line(const TextFlags& flags, const LineHandler& handle) {
  const bool standard = flags.file.empty() || flags.file == "-";
  const std::string name = standard ? "standard input" : flags.file;
  std::ifstream file;
  if (!standard) {
    file.open(flags.file);
    if (!file) fail(ErrorKind::not_found, flags.file, ": cannot open");
  }
  std::istream& input = standard ? std::cin : file;
  std::ios::sync_with_stdio(false);
  std::string line;
  for (size_t number = 1; std::getline(input, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::cout << handle(line, cat(name, " line ", number)) << '\n';
  }
  if (input.bad()) fail(ErrorKind::io, name, ": cannot read");
  std::cout.flush();
  if (!std::cout) fail(ErrorKind::io, "standard output: cannot write");
}

void add_text(CLI::App& program) {
  CLI::App* const text =
      program.add_subcommand("text", "Show prompts, parsed answers and tokens, line by line");
  text->require_subcommand(1);
  add_text_render(*text);
  add_text_parse(*text);
  add_text_tokenize(*text);
}

}  // namespace glint
