// glint: one program, one subcommand for each thing it does.
// Exit status: 0 done, 1 the system or the program failed, 2 the command line or a file is wrong.

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "commands.h"

namespace {

constexpr int kFailed = 1;
constexpr int kWrongInput = 2;

void print_error(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::cerr << "glint: " << message << "\n";
}

int exit_status(glint::ErrorKind kind) {
  switch (kind) {
    case glint::ErrorKind::bad_input:
    case glint::ErrorKind::not_found:
    case glint::ErrorKind::unsupported:
      return kWrongInput;
    case glint::ErrorKind::busy:
    case glint::ErrorKind::io:
    case glint::ErrorKind::internal:
      return kFailed;
  }
  return kFailed;
}

/// In reverse, as CLI11 wants them, with the two-letter short forms that users of vLLM know spelled out.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> list;
  for (int i = argc - 1; i > 0; --i) {
    std::string_view text = argv[i];
    if (text == "-tp") text = "--tensor-parallel-size";
    if (text == "-pp") text = "--pipeline-parallel-size";
    if (text == "-dcp") text = "--decode-context-parallel-size";
    list.emplace_back(text);
  }
  return list;
}

/// An empty value is, as a rule, a shell variable that was never set: refused, not taken for "not given".
void refuse_empty_values(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() == 0) continue;
    option->check([](const std::string& value) {
      return value.empty() ? std::string("expected a value, got an empty text") : std::string();
    });
  }
}

int run(int argc, char** argv) {
  CLI::App program("Serves GLM-5.3 checkpoints (glm_moe_dsa) on the CPU.", "glint");
  program.set_version_flag("--version", "glint " GLINT_VERSION);
  program.require_subcommand(1);
  glint::add_make_checkpoint(program);
  glint::add_quantize(program);
  glint::add_verify_checkpoint(program);
  glint::add_inspect(program);
  glint::add_text(program);
  glint::add_trace(program);
  glint::add_bench(program);
  glint::add_serve(program);
  glint::add_plan(program);
  for (const char* name : {"serve", "plan"}) refuse_empty_values(*program.get_subcommand(name));
  try {
    program.parse(arguments(argc, argv));
  } catch (const CLI::Success& request) {
    return program.exit(request);  // --help and --version
  } catch (const CLI::ParseError& error) {
    if (program.get_subcommands().empty() && argc > 1 && argv[1][0] != '-') {
      print_error(glint::cat("unknown command ", argv[1], " (glint --help lists the commands)"));
      return kWrongInput;
    }
    print_error(
        glint::cat(error.what(), " (glint --help lists the commands, glint COMMAND --help the flags)"));
    return kWrongInput;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const glint::Error& error) {
    print_error(error.what());
    return exit_status(error.kind());
  } catch (const std::exception& error) {
    print_error(error.what());
    return kFailed;
  }
}
