// glint help: the help of a command, the manual page, the completions of the shells.

#include "base/flags/help.h"

#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/flags/completion.h"
#include "base/flags/man_page.h"
#include "client_commands.h"
#include "commands.h"
#include "flags/serve_flags.h"

namespace glint {

namespace {

struct Flags {
  std::vector<std::string> command;  // "bench", "serve"
  bool man = false;
  std::string shell;
};

/// The flags of a command that CLI11 reads, and of the commands below it.
void add_commands(const CLI::App& app, const std::string& path, std::vector<CompletedCommand>& to) {
  CompletedCommand command{path, app.get_description(), {}};
  for (const CLI::Option* option : app.get_options()) {
    CompletedFlag flag{{}, option->get_items_expected_max() > 0, {}, option->get_description()};
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    if (!flag.names.empty()) command.flags.push_back(std::move(flag));
  }
  to.push_back(std::move(command));
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    add_commands(*below, path + " " + below->get_name(), to);
  }
}

std::string completions(const CLI::App& program, const std::string& shell) {
  std::vector<CompletedCommand> commands;
  for (const std::string_view form : {kServe, kLaunchServer, kPlan}) {
    ServeFlags flags;
    commands.push_back(completed_command(serve_table(form, flags)));
  }
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    if (!is_serve_form(command->get_name())) add_commands(*command, command->get_name(), commands);
  }
  return completion_script(shell, "glint", commands);
}

std::string manual() {
  ServeFlags serve_flags, plan_flags;
  const FlagTable serve = serve_table(kServe, serve_flags);
  const FlagTable plan = serve_table(kPlan, plan_flags);
  return man_page(serve, &plan, "glint-serve", "glint " GLINT_VERSION,
                  "glint serve MODEL [flags]\nglint launch_server --model-path MODEL [flags]\n"
                  "glint plan MODEL [flags]");
}

const CLI::App* command_below(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

/// What `glint WORDS --help` says.
void explain(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* command = &program;
  std::string path, above;
  for (const std::string& word : words) {
    above = cat("glint", path);
    path += " " + word;
    command = command_below(*command, word);
    if (command == nullptr)
      fail(ErrorKind::bad_input, "unknown command", path, " (glint --help lists the commands)");
  }
  // Their flags are tables of their own.
  if (is_serve_form(words.front())) return run_serve_form(words.front(), {"--help"});
  if (path == " bench serve") return run_bench_serve({"--help"});
  if (path == " doctor") return static_cast<void>(run_doctor_command({"--help"}));
  std::cout << command->help(above);
}

void run(const CLI::App& program, const Flags& flags) {
  if (flags.man) {
    std::cout << manual();
  } else if (!flags.shell.empty()) {
    std::cout << completions(program, flags.shell);
  } else if (flags.command.empty()) {
    std::cout << program.help();
  } else {
    explain(program, flags.command);
  }
}

}  // namespace

void add_help(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("help", "Help on a command, the manual page, completions for shells");
  const auto flags = std::make_shared<Flags>();
  command->add_option("COMMAND", flags->command, "The command to explain: chat, bench serve");
  command->add_flag("--man", flags->man,
                    "The manual page of the server, in roff: glint help --man | man -l -");
  command->add_option("--completion", flags->shell,
                      "Completions for bash, zsh or fish: source <(glint help --completion bash)");
  command->callback([flags, &program] { run(program, *flags); });
}

}  // namespace glint
