// Rounds that are started before the one before has been looked at.
#include <gtest/gtest.h>

#include <cmath>

#include "engine_support.h"

namespace glint::testing {
namespace {

EngineOptions options_with(int64_t drafts) {
  EngineOptions options = small_options();
  options.num_speculative_tokens = drafts;
  return options;
}

/// An engine whose decoding steps are rounds.
struct Rounds {
  explicit Rounds(const EngineOptions& options)
      : engine(start(collector, options, served_folder(), with_rounds(options, counts))) {}
  std::vector<TokenId> answer(const EngineRequest& request) {
    return collector.wait(engine->submit(request)).tokens;
  }

  RoundCounts counts;  // to be read when the engine is gone
  Collector collector;
  std::unique_ptr<Engine> engine;
};

EngineRequest request_of(int seed, int64_t tokens) {
  EngineRequest request;
  for (int i = 0; i < 20 + seed * 3; ++i) request.prompt.push_back((i * 31 + seed * 17) % 250);
  request.sampling.max_tokens = tokens;
  request.sampling.temperature = seed % 2 == 0 ? 0.0F : 0.8F;
  request.sampling.seed = static_cast<uint64_t>(seed);
  request.sampling.ignore_eos = true;
  return request;
}

/// What the request gets from an engine without rounds.
std::vector<TokenId> alone(const EngineRequest& request, int64_t drafts) {
  Collector collector;
  const auto engine = start(collector, options_with(drafts));
  return collector.wait(engine->submit(request)).tokens;
}

TEST(RunAhead, MostRoundsAreStartedBeforeTheOneBeforeHasEnded) {
  for (const int64_t drafts : {0, 3}) {
    const EngineOptions options = options_with(drafts);
    Rounds ahead(options);
    EXPECT_EQ(ahead.answer(request_of(1, 60)), alone(request_of(1, 60), drafts));
    EXPECT_TRUE(pages_come_free(*ahead.engine));
    const EngineStats stats = ahead.engine->stats();
    ahead.engine.reset();
    EXPECT_GT(ahead.counts.started, 10);
    EXPECT_EQ(ahead.counts.started - ahead.counts.continued, 1);  // one chain
    const auto rounds = static_cast<int64_t>(stats.rounds.rounds);
    EXPECT_GE(ahead.counts.started, rounds);
    EXPECT_LE(ahead.counts.started, rounds + 1);  // one may have been started for nothing
    EXPECT_EQ(stats.rounds.ahead, stats.rounds.rounds - 1);
  }
}

TEST(RunAhead, WhatComesJoinsAndWhatGoesLeaves) {
  const EngineOptions options = options_with(2);
  Rounds ahead(options);
  const uint64_t first = ahead.engine->submit(request_of(2, 200));
  const uint64_t leaving = ahead.engine->submit(request_of(3, 200));
  ahead.collector.wait_for_tokens(first, 10);
  const uint64_t late = ahead.engine->submit(request_of(4, 20));
  EXPECT_EQ(ahead.collector.wait(late).tokens, alone(request_of(4, 20), 2));
  EXPECT_LT(ahead.collector.tokens_so_far(first), 200U);
  ahead.engine->abort(leaving);
  ahead.engine->reset_prefix_cache({.running = true, .tier = false});
  EXPECT_EQ(ahead.collector.wait(first).tokens, alone(request_of(2, 200), 2));
  EXPECT_TRUE(pages_come_free(*ahead.engine));
  ahead.engine.reset();
  EXPECT_GT(ahead.counts.continued, 0);
}

TEST(RunAhead, RulesAndLogprobsNeedTheHost) {
  const EngineOptions options = options_with(2);
  Rounds ahead(options);
  EngineRequest with_logprobs = request_of(5, 20);
  with_logprobs.sampling.logprobs = 1;
  EXPECT_EQ(ahead.answer(with_logprobs), alone(request_of(5, 20), 2));
  EngineRequest penalised = request_of(5, 20);
  penalised.sampling.presence_penalty = 1;
  EXPECT_EQ(ahead.answer(penalised), alone(penalised, 2));
  ahead.engine.reset();
  EXPECT_EQ(ahead.counts.started, 0);
}

TEST(RunAhead, RulesThatAreOverNeedItNoLonger) {
  const EngineOptions options = options_with(2);
  Rounds ahead(options);
  EngineRequest request = request_of(6, 40);
  request.sampling.min_tokens = 5;
  EXPECT_EQ(ahead.answer(request), alone(request, 2));
  ahead.engine.reset();
  EXPECT_GT(ahead.counts.started, 5);
}

TEST(RunAhead, StopsAtTheContextLimit) {
  EngineOptions options = options_with(3);
  options.max_model_len = 128;
  Rounds ahead(options);
  const Answer answer = ahead.collector.wait(ahead.engine->submit(request_of(7, 500)));
  EXPECT_EQ(answer.finish, FinishReason::length);
  EXPECT_EQ(answer.tokens.size(), 128 - request_of(7, 500).prompt.size());
  EngineRequest shorter = request_of(7, static_cast<int64_t>(answer.tokens.size()));
  EXPECT_EQ(answer.tokens, alone(shorter, 3));
  ahead.engine.reset();
  EXPECT_GT(ahead.counts.continued, 0);
}

TEST(RunAhead, AFullPoolWithANumberOfDraftsThatVariesEndsNobody) {
  EngineOptions options = options_with(kSpeculativeTokensAuto);
  options.max_num_batched_tokens = 100;
  options.max_model_len = 256;
  const EnginePlan plan = plan_engine(*Checkpoint::open(served_folder()), options);
  options.kv_cache_memory_bytes = plan.cache_bytes / plan.cache_pages * 4;  // two of two pages each
  Rounds ahead(options);
  std::vector<std::pair<uint64_t, EngineRequest>> sent;
  for (const int seed : {9, 10}) {
    EngineRequest request = request_of(seed, 100);
    while (request.prompt.size() < 108) request.prompt.push_back(seed);
    const uint64_t id = ahead.engine->submit(request);
    sent.emplace_back(id, std::move(request));
  }
  for (const auto& [id, request] : sent) EXPECT_EQ(ahead.collector.wait(id).tokens, alone(request, 0));
  EXPECT_TRUE(ahead.engine->alive());
  ahead.engine.reset();
  EXPECT_GT(ahead.counts.continued, 0);
}

TEST(RunAhead, AutoTriesANeighbouringNumberOfDrafts) {
  EngineOptions options = options_with(kSpeculativeTokensAuto);
  Rounds ahead(options);
  EXPECT_EQ(ahead.answer(request_of(2, 300)), alone(request_of(2, 300), 0));
  ahead.engine.reset();
  // Drafts of the stand-in are hardly ever confirmed, so it settles; and leaves that for a trial.
  int64_t alike = 0;
  bool tried = false;
  for (size_t i = 1; i < ahead.counts.drafts.size(); ++i) {
    const bool same = ahead.counts.drafts[i] == ahead.counts.drafts[i - 1];
    tried = tried || (!same && alike >= 20);
    alike = same ? alike + 1 : 0;
  }
  EXPECT_TRUE(tried) << ahead.counts.drafts.size() << " rounds";
}

/// The logits of position `where` are NaN.
class Poisoned final : public PlainExecutor {
 public:
  Poisoned(std::unique_ptr<Executor> executor, int32_t where)
      : PlainExecutor(std::move(executor)), where_(where) {}
  float* execute(const StepDescription& step) override {
    float* const logits = PlainExecutor::execute(step);
    const int64_t size = config().vocab_size;
    for (size_t i = 0; i < step.logits_rows.size(); ++i) {
      if (step.positions[static_cast<size_t>(step.logits_rows[i])] != where_) continue;
      std::fill_n(logits + static_cast<int64_t>(i) * size, size, std::nanf(""));
    }
    return logits;
  }

 private:
  int32_t where_;
};

TEST(RunAhead, ANanInAChainEndsItsOwnRequestAlone) {
  for (const int64_t drafts : {0, 3}) {
    RoundCounts counts;
    Collector collector;
    const EngineOptions options = options_with(drafts);
    auto engine = start(collector, options, served_folder(), [&](std::unique_ptr<Executor> executor) {
      return std::make_unique<HostRoundExecutor>(std::make_unique<Poisoned>(std::move(executor), 60),
                                                 options.max_model_len, counts);
    });
    const uint64_t bad = engine->submit(request_of(1, 100));  // 23 tokens of prompt
    const uint64_t good = engine->submit(request_of(2, 30));  // never comes so far
    const Answer ended = collector.wait(bad);
    EXPECT_EQ(ended.finish, FinishReason::error);
    EXPECT_NE(ended.error.find("no usable logits at position 60"), std::string::npos) << ended.error;
    EXPECT_EQ(ended.tokens.size(), 60U - 23 + 1);
    EXPECT_EQ(collector.wait(good).tokens, alone(request_of(2, 30), drafts));
    EXPECT_TRUE(pages_come_free(*engine));
    engine.reset();
    EXPECT_GT(counts.continued, 0);
  }
}

/// Fails at its `when`-th round.
class FailingRounds final : public PlainExecutor, public RoundRunner {
 public:
  FailingRounds(std::unique_ptr<Executor> executor, int64_t context, int64_t when)
      : PlainExecutor(std::move(executor)), rounds_(*executor_, context, counts_), when_(when) {}
  RoundRunner* rounds() override { return this; }
  void set_sampleable(const std::vector<bool>& sampleable) override { rounds_.set_sampleable(sampleable); }
  [[nodiscard]] bool takes(int64_t sequences, int64_t drafts) const override {
    return rounds_.takes(sequences, drafts);
  }
  [[nodiscard]] int64_t context_limit() const override { return rounds_.context_limit(); }
  void start(const RoundDescription& round) override {
    if (--when_ == 0) fail(ErrorKind::internal, "the device is gone");
    rounds_.start(round);
  }
  RoundResult finish() override { return rounds_.finish(); }

 private:
  RoundCounts counts_;
  HostRounds rounds_;
  int64_t when_;
};

TEST(RunAhead, AFailedRoundEndsEveryRequestWithAReason) {
  for (const int64_t when : {1, 2, 5}) {
    Collector collector;
    const EngineOptions options = options_with(2);
    const auto engine = start(collector, options, served_folder(), [&](std::unique_ptr<Executor> executor) {
      return std::make_unique<FailingRounds>(std::move(executor), options.max_model_len, when);
    });
    const uint64_t id = engine->submit(request_of(8, 100));
    const Answer answer = collector.wait(id);
    EXPECT_EQ(answer.finish, FinishReason::error);
    EXPECT_NE(answer.error.find("the device is gone"), std::string::npos);
    EXPECT_FALSE(engine->alive());
  }
}

}  // namespace
}  // namespace glint::testing
