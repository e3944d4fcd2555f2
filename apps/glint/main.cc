// glint: one program, one subcommand for each thing it does.
// Exit status: 0 done, 1 the system or the program failed, 2 the command line or a file is wrong.

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "client_commands.h"
#include "commands.h"

namespace {

constexpr int kFailed = 1;
constexpr int kWrongInput = 2;

void print_error(std::string message, const std::string& head = "glint: ") {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::cerr << head << message << "\n";
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

/// Listed by --help; main hands them to run_serve_form before CLI11 sees them.
void list_serve_forms(CLI::App& program) {
  program.add_subcommand("serve", "Serve a checkpoint over HTTP, as OpenAI's API, with vLLM's defaults");
  program.add_subcommand("launch_server", "The same with SGLang's defaults");
  program.add_subcommand("plan", "Show what serving a model would take of every device");
}

/// Likewise: their flags are tables of their own.
void list_client_commands(CLI::App& program) {
  program.add_subcommand("doctor", "Ask any OpenAI-compatible server what clients rely on; one line a check");
  program.get_subcommand("bench")->add_subcommand(
      "serve", "Measure any OpenAI-compatible server: the flags, the load and the table of vllm bench serve");
}

int run(int argc, char** argv) {
  CLI::App program("Serves GLM-5.3 checkpoints (glm_moe_dsa) on the CPU.", "glint");
  program.set_version_flag("--version", "glint " GLINT_VERSION);
  program.require_subcommand(1);
  glint::add_make_checkpoint(program);
  glint::add_quantize(program);
  glint::add_verify(program);
  glint::add_verify_checkpoint(program);
  glint::add_inspect(program);
  glint::add_download(program);
  glint::add_text(program);
  glint::add_trace(program);
  glint::add_bench(program);
  glint::add_chat(program);
  list_serve_forms(program);
  list_client_commands(program);
  glint::add_help(program);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& request) {
    return program.exit(request);  // --help and --version
  } catch (const CLI::RuntimeError& end) {
    return end.get_exit_code();  // a command that has said all there is to say
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
  std::string head = "glint: ";
  try {
    if (argc > 1 && glint::is_serve_form(argv[1])) {
      head = glint::cat("glint ", argv[1], ": error: ");
      glint::run_serve_form(argv[1], {argv + 2, argv + argc});
      return 0;
    }
    if (argc > 2 && argv[1] == std::string_view("bench") && argv[2] == std::string_view("serve")) {
      head = "glint bench serve: error: ";
      glint::run_bench_serve({argv + 3, argv + argc});
      return 0;
    }
    if (argc > 1 && argv[1] == std::string_view("doctor")) {
      head = "glint doctor: error: ";
      return glint::run_doctor_command({argv + 2, argv + argc});
    }
    return run(argc, argv);
  } catch (const glint::Error& error) {
    print_error(error.what(), head);
    return exit_status(error.kind());
  } catch (const std::exception& error) {
    print_error(error.what(), head);
    return kFailed;
  }
}
