// An engine on a stand-in checkpoint, and what comes out of it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "engine/engine_factory.h"
#include "golden_support.h"
#include "support/host_rounds.h"
#include "text/standin_tokenizer.h"

namespace glint::testing {

struct Answer {
  std::vector<TokenId> tokens;
  FinishReason finish = FinishReason::none;
  std::optional<TokenId> stop_token;
  std::string stop_string, error;
  Logprobs logprobs, prompt_logprobs;
  int64_t cached_tokens = 0;
};

inline void append(Logprobs& to, const Logprobs& from) {
  if (from.empty()) return;
  to.top = from.top;
  to.chosen.insert(to.chosen.end(), from.chosen.begin(), from.chosen.end());
  to.ranks.insert(to.ranks.end(), from.ranks.begin(), from.ranks.end());
  to.alternatives.insert(to.alternatives.end(), from.alternatives.begin(), from.alternatives.end());
}

/// Bit for bit.
inline bool equal(const Logprobs& a, const Logprobs& b) {
  const auto same = [](const std::vector<TokenLogprob>& x, const std::vector<TokenLogprob>& y) {
    return x.size() == y.size() &&
           (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(TokenLogprob)) == 0);
  };
  return a.top == b.top && same(a.chosen, b.chosen) && a.ranks == b.ranks &&
         same(a.alternatives, b.alternatives);
}

/// Collects outputs by request.
class Collector {
 public:
  OutputSink sink() {
    return [this](std::span<StepOutput> outputs) {
      const std::lock_guard lock(mutex_);
      for (StepOutput& output : outputs) {
        Answer& answer = answers_[output.request];
        EXPECT_EQ(answer.finish, FinishReason::none) << "an output after the end";
        answer.tokens.insert(answer.tokens.end(), output.tokens.begin(), output.tokens.end());
        answer.finish = output.finish;
        answer.stop_token = output.stop_token;
        answer.stop_string = output.stop_string;
        answer.error = output.error;
        append(answer.logprobs, output.logprobs);
        append(answer.prompt_logprobs, output.prompt_logprobs);
        answer.cached_tokens = output.times.cached_tokens;
      }
      changed_.notify_all();
    };
  }
  Answer wait(uint64_t id) {
    std::unique_lock lock(mutex_);
    const bool ended = changed_.wait_for(lock, std::chrono::seconds(120),
                                         [&] { return answers_[id].finish != FinishReason::none; });
    EXPECT_TRUE(ended) << "request " << id << " did not end";
    return answers_[id];
  }
  void wait_for_tokens(uint64_t id, size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(120), [&] { return answers_[id].tokens.size() >= count; });
  }
  size_t tokens_so_far(uint64_t id) {
    const std::lock_guard lock(mutex_);
    return answers_[id].tokens.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Answer> answers_;
};

/// A golden's stand-in with a tokenizer beside it, made once a process.
inline std::filesystem::path served_folder(const std::string& name = "micro-fp8") {
  static std::map<std::string, std::filesystem::path> folders;
  std::filesystem::path& folder = folders[name];
  if (folder.empty()) {
    folder = golden_checkpoint(golden_case(name));
    write_standin_tokenizer(load_model_config(folder), folder);
  }
  return folder;
}

inline EngineOptions small_options() {
  EngineOptions options;
  options.threads = 2;
  options.max_model_len = 512;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 48;
  return options;
}

/// Waits until no page is held any more, for a sequence or for the tier. False after two minutes.
inline bool pages_come_free(const Engine& engine) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (engine.stats().pages_used != 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return engine.stats().pages_used == 0;
}

inline std::unique_ptr<Engine> start(Collector& collector, const EngineOptions& options = small_options(),
                                     const std::filesystem::path& folder = served_folder(),
                                     const ExecutorWrap& wrap = nullptr) {
  return make_engine(Checkpoint::open(folder), Tokenizer::load(folder), options, collector.sink(), wrap);
}

/// For start(): decoding steps are rounds, which run ahead. `options` name a max_model_len.
inline ExecutorWrap with_rounds(const EngineOptions& options, RoundCounts& counts) {
  return [context = options.max_model_len, &counts](std::unique_ptr<Executor> executor) {
    return std::make_unique<HostRoundExecutor>(std::move(executor), context, counts);
  };
}

}  // namespace glint::testing
