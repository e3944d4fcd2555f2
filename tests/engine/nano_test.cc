// The trained model in the box against Hugging Face transformers: greedy texts in float32, token for token,
// all requests running together with five drafts each. The texts were made once by tools/nano/make_greedy.py.
#include <fstream>

#include "base/json.h"
#include "engine_support.h"

namespace glint::testing {
namespace {

struct Line {
  std::string prompt, text;
  int64_t tokens = 0;  // with the ending one, if it ended
};

/// Every `stride`-th of the 200 texts.
std::vector<Line> greedy_lines(int stride) {
  std::ifstream file(std::filesystem::path(GLINT_TEST_DATA) / "../../models/nano/verify/greedy.jsonl");
  std::vector<Line> lines;
  int number = 0;
  for (std::string text; std::getline(file, text); ++number) {
    if (number % stride != 0) continue;
    const Json json = parse_json(text, "greedy.jsonl");
    lines.push_back({json.at("prompt"), json.at("text"), json.at("tokens")});
  }
  EXPECT_EQ(number, 200);
  return lines;
}

TEST(Nano, GreedyTextsAreThoseOfTransformers) {
  const std::filesystem::path folder = std::filesystem::path(GLINT_TEST_DATA) / "../../models/nano";
  const auto tokenizer = Tokenizer::load(folder);
  EngineOptions options;
  options.dtype = ops::ComputeDType::float32;
  options.threads = 2;
  options.max_model_len = 4096;
  options.num_speculative_tokens = 5;
  Collector collector;
  const auto engine = start(collector, options, folder);
  std::vector<std::pair<uint64_t, Line>> sent;
  for (const Line& line : greedy_lines(10)) {
    EngineRequest request;
    request.prompt = tokenizer->encode(line.prompt, false);
    request.sampling.temperature = 0;
    request.sampling.max_tokens = line.tokens;
    sent.emplace_back(engine->submit(std::move(request)), line);
  }
  for (const auto& [id, line] : sent) {
    Answer answer = collector.wait(id);
    EXPECT_EQ(answer.tokens.size(), static_cast<size_t>(line.tokens)) << line.prompt;
    if (answer.stop_token) answer.tokens.pop_back();
    EXPECT_EQ(tokenizer->decode(answer.tokens, false), line.text) << line.prompt;
  }
  // What was learned shows in the drafts: of random weights hardly one would be confirmed.
  const DraftCounts drafts = engine->stats().drafts;
  EXPECT_GT(drafts.accepted_tokens, drafts.drafts * 3);
}

}  // namespace
}  // namespace glint::testing
