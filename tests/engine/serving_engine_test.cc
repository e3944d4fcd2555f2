// The loop with the real model on a stand-in checkpoint: what a request gets depends on its own input alone.
#include "engine/serving_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine_support.h"

namespace glint::testing {
namespace {

EngineRequest request(int variant, int64_t max_tokens) {
  EngineRequest made;
  for (int i = 0; i < 5 + variant * 23; ++i) made.prompt.push_back((i * 31 + variant * 7) % 200);
  made.sampling.max_tokens = max_tokens;
  made.sampling.temperature = variant % 2 == 0 ? 0.0F : 0.8F;
  made.sampling.top_p = 0.9F;
  made.sampling.seed = static_cast<uint64_t>(variant);
  made.sampling.ignore_eos = true;
  return made;
}

TEST(ServingEngine, AnAnswerDoesNotDependOnWhatRunsBesideIt) {
  std::vector<Answer> alone;
  {
    Collector collector;
    const auto engine = start(collector);
    for (int variant = 0; variant < 8; ++variant)
      alone.push_back(collector.wait(engine->submit(request(variant, 20))));
  }
  EngineOptions options = small_options();
  options.threads = 3;
  options.max_num_batched_tokens = 17;
  Collector collector;
  const auto engine = start(collector, options);
  std::vector<uint64_t> ids;
  for (int variant = 7; variant >= 0; --variant) ids.push_back(engine->submit(request(variant, 20)));
  for (int variant = 0; variant < 8; ++variant) {
    const Answer together = collector.wait(ids[static_cast<size_t>(7 - variant)]);
    EXPECT_EQ(together.tokens, alone[static_cast<size_t>(variant)].tokens) << "variant " << variant;
    EXPECT_EQ(together.finish, FinishReason::length);
    EXPECT_EQ(together.tokens.size(), 20U);
  }
  EXPECT_EQ(engine->stats().pages_used, 0);
  EXPECT_GT(engine->stats().steps, 20U);
}

TEST(ServingEngine, SpeculationAndThePrefixCacheChangeNoToken) {
  std::vector<Answer> plain;
  {
    EngineOptions options = small_options();
    options.prefix_caching = false;
    Collector collector;
    const auto engine = start(collector, options);
    for (int variant = 0; variant < 8; ++variant)
      plain.push_back(collector.wait(engine->submit(request(variant, 40))));
    EXPECT_EQ(engine->stats().prefix_hits_tokens, 0U);
  }
  for (const int64_t drafts : {1, 3, 5, 8}) {
    EngineOptions options = small_options();
    options.num_speculative_tokens = drafts;
    options.max_num_batched_tokens = 80;
    Collector collector;
    const auto engine = start(collector, options);
    for (int round = 0; round < 2; ++round) {  // the second time the prompts are in the cache
      std::vector<uint64_t> ids;
      for (int variant = 0; variant < 8; ++variant) ids.push_back(engine->submit(request(variant, 40)));
      for (int variant = 0; variant < 8; ++variant) {
        EXPECT_EQ(collector.wait(ids[static_cast<size_t>(variant)]).tokens,
                  plain[static_cast<size_t>(variant)].tokens)
            << "variant " << variant << ", " << drafts << " drafts, round " << round;
      }
    }
    const EngineStats stats = engine->stats();
    EXPECT_GT(stats.prefix_hits_tokens, 0U);
    EXPECT_GT(stats.drafts.drafts, 0U);
    EXPECT_LE(stats.drafts.accepted_tokens, stats.drafts.draft_tokens);
    EXPECT_EQ(stats.pages_used, 0);
    std::printf("%ld drafts a step: %lu drafted, %lu confirmed\n", static_cast<long>(drafts),
                static_cast<unsigned long>(stats.drafts.draft_tokens),
                static_cast<unsigned long>(stats.drafts.accepted_tokens));
  }
}

TEST(ServingEngine, AResetLeavesNothingToFindAndChangesNoToken) {
  const Answer plain = [] {
    Collector collector;
    return collector.wait(start(collector)->submit(request(7, 8)));
  }();
  for (const bool restart : {false, true}) {
    Collector collector;
    const auto engine = start(collector);
    const auto ask = [&] {
      const Answer answer = collector.wait(engine->submit(request(7, 8)));
      EXPECT_EQ(answer.tokens, plain.tokens);
      return answer.cached_tokens;
    };
    EXPECT_EQ(ask(), 0);
    EXPECT_EQ(ask(), 128) << "two pages of a prompt of 166 tokens";
    engine->reset_prefix_cache({.running = restart});
    EXPECT_EQ(ask(), 0);
    EXPECT_EQ(ask(), 128) << "the cache goes on";
    // While something runs: its pages are forgotten too, and it gets the same tokens.
    EngineRequest longer = request(6, 300);
    const uint64_t running = engine->submit(longer);
    collector.wait_for_tokens(running, 5);
    engine->reset_prefix_cache({.running = restart});
    EXPECT_EQ(ask(), 0);
    longer.prompt.push_back(0);
    longer.sampling.max_tokens = 1;
    const int64_t found = collector.wait(engine->submit(longer)).cached_tokens;
    // What starts again puts its pages into the cache again.
    if (!restart) {
      EXPECT_EQ(found, 0);
    }
    std::vector<TokenId> disturbed = collector.wait(running).tokens;
    EXPECT_EQ(disturbed.size(), 300U);
    EXPECT_EQ(engine->stats().preemptions > 0, restart);
    disturbed.resize(60);
    EXPECT_EQ(disturbed, collector.wait(engine->submit(request(6, 60))).tokens);
    EXPECT_TRUE(pages_come_free(*engine));
  }
}

TEST(ServingEngine, PreemptionChangesNoToken) {
  std::vector<Answer> plain;
  {
    Collector collector;
    const auto engine = start(collector);
    for (int variant = 0; variant < 8; ++variant)
      plain.push_back(collector.wait(engine->submit(request(variant, 150))));
  }
  EngineOptions options = small_options();
  for (const int64_t drafts : {0, 3}) {
    options.num_speculative_tokens = drafts;
    options.kv_cache_memory_bytes = 0;
    options.kv_cache_memory_bytes =
        plan_engine(*Checkpoint::open(served_folder()), options).cache_bytes / 8;  // one request
    Collector collector;
    const auto engine = start(collector, options);
    std::vector<uint64_t> ids;
    for (int variant = 0; variant < 8; ++variant) ids.push_back(engine->submit(request(variant, 150)));
    for (int variant = 0; variant < 8; ++variant) {
      EXPECT_EQ(collector.wait(ids[static_cast<size_t>(variant)]).tokens,
                plain[static_cast<size_t>(variant)].tokens)
          << "variant " << variant << ", " << drafts << " drafts";
    }
    EXPECT_GT(engine->stats().preemptions, 0U);
    EXPECT_EQ(engine->stats().pages_used, 0);
  }
}

TEST(ServingEngine, EndsAtTheContextLimit) {
  EngineOptions options = small_options();
  options.max_model_len = 64;
  Collector collector;
  const auto engine = start(collector, options);
  EngineRequest long_one = request(2, 1000);
  const auto prompt = long_one.prompt.size();
  const Answer answer = collector.wait(engine->submit(long_one));
  EXPECT_EQ(answer.finish, FinishReason::length);
  EXPECT_EQ(answer.tokens.size(), 64 - prompt);
}

TEST(ServingEngine, EndsAtStopTokensUnlessTheMinimumForbids) {
  Collector collector;
  const auto engine = start(collector);
  const Answer free_run = collector.wait(engine->submit(request(0, 12)));
  EngineRequest stopping = request(0, 12);
  stopping.sampling.stop_token_ids = {free_run.tokens[5]};
  const Answer stopped = collector.wait(engine->submit(stopping));
  EXPECT_EQ(stopped.finish, FinishReason::stop);
  EXPECT_EQ(stopped.stop_token, free_run.tokens[5]);
  const auto first = std::find(free_run.tokens.begin(), free_run.tokens.end(), free_run.tokens[5]);
  EXPECT_EQ(stopped.tokens, std::vector<TokenId>(free_run.tokens.begin(), first + 1));
  stopping.sampling.min_tokens = 12;
  const Answer forced_on = collector.wait(engine->submit(stopping));
  EXPECT_EQ(forced_on.tokens.size(), 12U);
  EXPECT_EQ(std::count(forced_on.tokens.begin(), forced_on.tokens.end(), free_run.tokens[5]), 0);
}

TEST(ServingEngine, AbortFreesTheSequenceBeforeTheNextStep) {
  Collector collector;
  const auto engine = start(collector);
  const uint64_t id = engine->submit(request(1, 400));
  collector.wait_for_tokens(id, 3);
  engine->abort(id);
  collector.wait(engine->submit(request(0, 2)));
  const size_t seen = collector.tokens_so_far(id);
  EXPECT_LT(seen, 400U);
  collector.wait(engine->submit(request(0, 5)));
  EXPECT_EQ(collector.tokens_so_far(id), seen) << "an output after the abort";
  EXPECT_EQ(engine->stats().pages_used, 0);
  engine->abort(id);
  engine->abort(987654);
}

TEST(ServingEngine, RefusesAtTheDoorWithTheNumbers) {
  Collector collector;
  const auto engine = start(collector);
  const auto refusal = [&](EngineRequest bad) -> std::string {
    try {
      engine->submit(std::move(bad));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EngineRequest too_long = request(0, 1);
  too_long.prompt.assign(512, 1);
  EXPECT_NE(refusal(too_long).find("maximum context length is 512 tokens. However, your request has 512"),
            std::string::npos);
  too_long.prompt.assign(511, 1);
  EXPECT_EQ(refusal(too_long), "");
  EXPECT_NE(refusal({}).find("empty"), std::string::npos);
  EngineRequest foreign = request(0, 1);
  foreign.prompt[2] = 320;
  EXPECT_NE(refusal(foreign).find("token id 320 is outside the vocabulary of 320"), std::string::npos);
}

TEST(ServingEngine, ShutdownEndsWhatRuns) {
  Collector collector;
  uint64_t id = 0;
  {
    const auto engine = start(collector);
    id = engine->submit(request(1, 400));
    collector.wait_for_tokens(id, 1);
  }
  EXPECT_EQ(collector.wait(id).finish, FinishReason::abort);
}

/// A device that fails, or gives NaN for one sequence.
class FaultyExecutor final : public Executor {
 public:
  FaultyExecutor(ModelConfig config, bool throws) : config_(std::move(config)), throws_(throws) {}
  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] int64_t pages_total() const override { return 100; }
  [[nodiscard]] int64_t rows_max() const override { return 100; }
  float* draft(const DraftDescription&) override { return nullptr; }
  float* execute(const StepDescription& step) override {
    if (throws_) throw std::runtime_error("the device burns");
    logits_.assign(step.logits_rows.size() * static_cast<size_t>(config_.vocab_size), 0.0F);
    for (size_t i = 0; i < step.logits_rows.size(); ++i) {
      if (step.tokens[static_cast<size_t>(step.logits_rows[i])] == 13) {
        logits_[i * static_cast<size_t>(config_.vocab_size) + 3] = std::nanf("");
      }
    }
    return logits_.data();
  }

 private:
  ModelConfig config_;
  bool throws_;
  std::vector<float> logits_;
};

std::unique_ptr<Engine> start_faulty(Collector& collector, bool throws) {
  ServingOptions options;
  options.max_model_len = 128;
  options.scheduler = {.max_num_seqs = 4, .max_num_batched_tokens = 100};
  return std::make_unique<ServingEngine>(
      std::make_unique<FaultyExecutor>(load_model_config(served_folder()), throws),
      Tokenizer::load(served_folder()), options, collector.sink());
}

TEST(ServingEngine, ANanEndsItsOwnRequestAlone) {
  Collector collector;
  const auto engine = start_faulty(collector, false);
  EngineRequest bad = request(0, 10);
  bad.prompt = {1, 13};
  EngineRequest good = request(0, 10);
  good.prompt = {1, 2};
  const uint64_t bad_id = engine->submit(bad);
  const uint64_t good_id = engine->submit(good);
  EXPECT_EQ(collector.wait(bad_id).finish, FinishReason::error);
  EXPECT_NE(collector.wait(bad_id).error.find("no usable logits at position 1"), std::string::npos);
  EXPECT_EQ(collector.wait(good_id).tokens.size(), 10U);
  EXPECT_TRUE(engine->alive());
}

TEST(ServingEngine, AFailedDeviceEndsEveryRequestWithAReason) {
  Collector collector;
  const auto engine = start_faulty(collector, true);
  const Answer answer = collector.wait(engine->submit(request(0, 10)));
  EXPECT_EQ(answer.finish, FinishReason::error);
  EXPECT_NE(answer.error.find("the device burns"), std::string::npos);
  EXPECT_FALSE(engine->alive());
  EXPECT_THROW(engine->submit(request(0, 10)), Error);
}

TEST(EnginePlan, SaysWhatDoesNotFitAndWhichFlagHelps) {
  const auto checkpoint = Checkpoint::open(served_folder());
  const auto refusal = [&](const EngineOptions& options) -> std::string {
    try {
      plan_engine(*checkpoint, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EngineOptions options = small_options();
  EXPECT_EQ(refusal(options), "");
  options.kv_cache_memory_bytes = plan_engine(*checkpoint, options).cache_bytes / 16;
  EXPECT_NE(refusal(options).find("lower --max-model-len or raise --kv-cache-memory-bytes"),
            std::string::npos);
  options.max_model_len = 0;
  EXPECT_EQ(plan_engine(*checkpoint, options).max_model_len, 256) << "auto takes what fits";
  options.kv_cache_memory_bytes = 10;
  EXPECT_NE(refusal(options).find("one page of 64 tokens takes"), std::string::npos);
  options = small_options();
  options.max_num_batched_tokens = 4;
  EXPECT_NE(refusal(options).find("must be greater than or equal to max_num_seqs (8)"), std::string::npos);
  options = small_options();
  options.max_model_len = int64_t{1} << 40;
  EXPECT_NE(refusal(options).find("greater than the derived max_model_len"), std::string::npos);
}

TEST(ServingEngine, PriorityDecidesWhoGoesFirst) {
  EngineOptions options = small_options();
  options.max_num_seqs = 1;
  options.by_priority = true;
  std::mutex mutex;
  std::vector<uint64_t> ended;
  std::condition_variable changed;
  const auto engine = make_engine(Checkpoint::open(served_folder()), Tokenizer::load(served_folder()),
                                  options, [&](std::span<StepOutput> outputs) {
                                    const std::lock_guard lock(mutex);
                                    for (const StepOutput& output : outputs) {
                                      if (output.finish != FinishReason::none)
                                        ended.push_back(output.request);
                                    }
                                    changed.notify_all();
                                  });
  // The first one runs; of the others the lowest number goes first, then the first to come.
  std::vector<uint64_t> ids;
  for (const int32_t priority : {0, 5, -1, 5, 2}) {
    EngineRequest one = request(1, 60);
    one.priority = priority;
    ids.push_back(engine->submit(one));
    while (ids.size() == 1 && engine->stats().running == 0) std::this_thread::yield();
  }
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(120), [&] { return ended.size() == 5; }));
  EXPECT_EQ(ended, (std::vector<uint64_t>{ids[0], ids[2], ids[4], ids[1], ids[3]}));
}

}  // namespace
}  // namespace glint::testing
