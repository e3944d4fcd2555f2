// A server over a device without a model, for clients that measure: prints its port, serves until it is
// killed.
//
//   timed_server FOLDER STEP_MS MAX_NUM_SEQS [PORT]   FOLDER: of the tokenizer; its path is a model name too
#include "bench/timed_server.h"

#include <csignal>
#include <cstdio>
#include <span>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/log.h"

namespace {

constexpr int64_t kContext = 16384;

void serve(std::span<char* const> arguments) {
  using namespace glint;
  set_log_level(LogLevel::warning);
  const std::string folder = arguments[0];
  const auto tokenizer = Tokenizer::load(folder);
  bench::TimedServerOptions options;
  options.model_names = {"timed", folder};
  options.model_root = folder;
  options.step_us = std::stoll(arguments[1]) * 1000;
  options.serving.max_model_len = kContext;
  options.serving.scheduler = {.max_num_seqs = std::stoll(arguments[2]), .max_num_batched_tokens = kContext};
  if (arguments.size() > 3) options.port = std::stoi(arguments[3]);
  try {
    options.chat_template = ChatTemplate::load(folder);
  } catch (const Error&) {
    // Completions alone.
  }
  const bench::TimedServer server(tokenizer, tokenizer->size(), options);
  std::printf("%d\n", server.port());
  std::fflush(stdout);
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  if (argc < 4) {
    std::fputs("timed_server FOLDER STEP_MS MAX_NUM_SEQS [PORT]\n", stderr);
    return 2;
  }
  try {
    serve(std::span(argv, static_cast<size_t>(argc)).subspan(1));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
