// What tools/check_tokenizer.py needs beside the program itself:
//   tokenizer_tool standin VOCAB_SIZE EOS EOS EOS DIR   writes a stand-in tokenizer
//   tokenizer_tool speed DIR FILE                       prints the load time and the encoding rate on one
//   core
#include <algorithm>
#include <chrono>
#include <iostream>
#include <span>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "text/standin_tokenizer.h"
#include "text/tokenizer.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void write_standin(std::span<char* const> arguments) {
  glint::ModelConfig config;
  config.vocab_size = std::stoll(arguments[0]);
  for (size_t i = 1; i <= 3; ++i) config.eos_token_id.push_back(std::stoi(arguments[i]));
  config.max_position_embeddings = 1048576;
  const auto start = Clock::now();
  glint::write_standin_tokenizer(config, arguments[4]);
  std::cout << "written in " << seconds_since(start) << " s\n";
}

void measure(const std::string& folder, const std::string& file) {
  const std::string text = glint::read_file(file);
  auto start = Clock::now();
  const auto tokenizer = glint::Tokenizer::load(folder);
  std::cout << "load " << seconds_since(start) << " s\n";
  double best = 1e9;
  size_t tokens = 0;
  for (int run = 0; run < 5; ++run) {
    start = Clock::now();
    tokens = tokenizer->encode(text, false).size();
    best = std::min(best, seconds_since(start));
  }
  const double megabytes = static_cast<double>(text.size()) * 1e-6;
  std::cout << "encode " << megabytes << " MB, " << tokens << " tokens, " << megabytes / best
            << " MB/s (best of 5)\n";
  const std::vector<glint::TokenId> ids = tokenizer->encode(text, false);
  start = Clock::now();
  const std::string back = tokenizer->decode(ids, false);
  std::cout << "decode " << megabytes / seconds_since(start) << " MB/s, "
            << (back == text ? "same text" : "OTHER TEXT") << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char* const> arguments(argv, static_cast<size_t>(argc));
  const std::string command = argc > 1 ? argv[1] : "";
  try {
    if (command == "standin" && argc == 7) {
      write_standin(arguments.subspan(2));
    } else if (command == "speed" && argc == 4) {
      measure(argv[2], argv[3]);
    } else {
      std::cerr << "usage: tokenizer_tool standin VOCAB_SIZE EOS EOS EOS DIR | speed DIR FILE\n";
      return 2;
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "tokenizer_tool: " << error.what() << "\n";
    return 1;
  }
}
