// The trained model in the box and its prompts, for tests that serve it on the GPU.
#pragma once

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "base/json.h"
#include "engine/engine_factory.h"
#include "harness.h"

namespace glint::gpu {

inline constexpr int64_t kTokensMax = 160;

struct Answer {
  std::vector<TokenId> tokens;
  std::vector<double> margins;  // of the likeliest token to the second, by logprob
  std::vector<float> logprobs;  // of all alternatives that were asked for
  bool ended = false;
  std::string error;

  bool operator==(const Answer&) const = default;
};

class Collector {
 public:
  OutputSink sink() {
    return [this](std::span<StepOutput> outputs) {
      const std::lock_guard lock(mutex_);
      for (StepOutput& output : outputs) {
        Answer& answer = answers_[output.request];
        answer.tokens.insert(answer.tokens.end(), output.tokens.begin(), output.tokens.end());
        for (const auto& alternative : output.logprobs.alternatives)
          answer.logprobs.push_back(alternative.logprob);
        const int64_t top = output.logprobs.top;
        for (size_t i = 0; top >= 2 && i + 1 < output.logprobs.alternatives.size();
             i += static_cast<size_t>(top)) {
          answer.margins.push_back(static_cast<double>(output.logprobs.alternatives[i].logprob) -
                                   static_cast<double>(output.logprobs.alternatives[i + 1].logprob));
        }
        answer.ended = output.finish != FinishReason::none;
        answer.error = output.error;
      }
      changed_.notify_all();
    };
  }
  Answer wait(uint64_t id) {
    std::unique_lock lock(mutex_);
    const bool ended = changed_.wait_for(lock, std::chrono::seconds(120), [&] { return answers_[id].ended; });
    expect(ended, "request ", id, " did not end");
    expect(answers_[id].error.empty(), answers_[id].error);
    return answers_[id];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Answer> answers_;
};

inline std::filesystem::path data_folder() {
  const char* elsewhere = std::getenv("GLINT_TEST_DATA");
  return elsewhere != nullptr ? elsewhere : GLINT_TEST_DATA;
}

inline std::filesystem::path nano_folder() {
  return data_folder() / "../../models/nano";
}

inline std::vector<std::string> prompts() {
  std::ifstream file(nano_folder() / "verify/greedy.jsonl");
  std::vector<std::string> all;
  for (std::string text; std::getline(file, text);)
    all.push_back(parse_json(text, "greedy.jsonl").at("prompt"));
  expect(all.size() == 200, all.size(), " prompts");
  return all;
}

}  // namespace glint::gpu
