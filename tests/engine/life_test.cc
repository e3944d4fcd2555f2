// The engine's life around its steps: the bounded queue, health, the flight recorder, idling.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>

#include "bench/timed_executor.h"
#include "engine/serving_engine.h"
#include "engine_support.h"

namespace glint::testing {
namespace {

using Ms = std::chrono::milliseconds;

EngineRequest letters(int64_t prompt_tokens, int64_t max_tokens) {
  EngineRequest request;
  request.prompt.assign(static_cast<size_t>(prompt_tokens), 'x');
  request.sampling.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  return request;
}

class Life : public ::testing::Test {
 protected:
  Life() {
    options.max_model_len = 1024;
    options.scheduler = {.max_num_seqs = 4, .max_num_batched_tokens = 64};
  }
  ~Life() override { control->release(); }

  void start() {
    engine = std::make_unique<ServingEngine>(
        std::make_unique<bench::TimedExecutor>(bench::timed_config(256), 64, 64, control),
        Tokenizer::load(served_folder()), options, collector.sink());
  }
  template <class Condition>
  static bool eventually(Condition condition) {
    for (int i = 0; i < 5000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(Ms(2));
    }
    return condition();
  }

  ServingOptions options;
  Collector collector;
  std::shared_ptr<bench::TimedExecutor::Control> control = std::make_shared<bench::TimedExecutor::Control>();
  std::unique_ptr<ServingEngine> engine;
};

TEST_F(Life, TheQueueTakesExactlyItsBoundFromManyThreads) {
  options.queue.requests = 10;
  start();
  control->hold();
  std::vector<uint64_t> ids = {engine->submit(letters(4, 3))};
  control->wait_held();
  std::atomic<int> taken{1}, refused{0};
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        try {
          const uint64_t id = engine->submit(letters(4, 3));
          ++taken;
          const std::lock_guard lock(mutex);
          ids.push_back(id);
        } catch (const QueueFull& full) {
          ++refused;
          EXPECT_GE(full.retry_after_s(), 1);
          EXPECT_LE(full.retry_after_s(), 60);
          EXPECT_EQ(full.kind(), ErrorKind::busy);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, 4 + 10);  // the places and the queue
  EXPECT_EQ(refused, 8 * 50 + 1 - 14);
  EXPECT_EQ(engine->stats().refused_by_requests, static_cast<uint64_t>(refused));
  EngineRequest part = letters(4, 3);
  part.admitted = true;  // a further choice of a request that is in
  ids.push_back(engine->submit(std::move(part)));
  control->release();
  for (const uint64_t id : ids) EXPECT_EQ(collector.wait(id).tokens.size(), 3U);
  EXPECT_TRUE(eventually([&] { return engine->stats().running == 0; }));
  EXPECT_EQ(collector.wait(engine->submit(letters(4, 1))).tokens.size(), 1U) << "room again";
}

TEST_F(Life, TheQueueCountsTokens) {
  options.scheduler.max_num_seqs = 1;
  options.queue.tokens = 100;
  start();
  control->hold();
  const uint64_t running = engine->submit(letters(4, 2));
  control->wait_held();
  const uint64_t alone = engine->submit(letters(500, 1));  // nothing else waits
  EXPECT_THROW(engine->submit(letters(1, 1)), QueueFull);
  EXPECT_EQ(engine->stats().refused_by_tokens, 1U);
  engine->abort(alone);
  control->release();
  collector.wait(running);
  EXPECT_TRUE(eventually([&] { return engine->stats().waiting + engine->stats().running == 0; }));
  control->hold();
  engine->submit(letters(4, 1));
  control->wait_held();
  engine->submit(letters(60, 1));
  engine->submit(letters(40, 1));
  try {
    engine->submit(letters(1, 1));
    FAIL() << "101 tokens would wait";
  } catch (const QueueFull& full) {
    EXPECT_NE(
        std::string(full.what()).find("100 tokens wait, this request has 1, --max-queued-tokens is 100"),
        std::string::npos)
        << full.what();
  }
  EngineRequest probe = letters(1, 1);
  probe.internal = true;
  EXPECT_NO_THROW(engine->submit(probe));
}

TEST_F(Life, HealthTellsOfARunningStepAndOfTheLastForward) {
  start();
  EXPECT_FALSE(engine->health().since_forward.has_value());
  EXPECT_FALSE(engine->health().running.has_value());
  control->hold();
  const uint64_t id = engine->submit(letters(4, 1));
  control->wait_held();
  EXPECT_TRUE(eventually([&] { return engine->health().running.value_or(Ms(0)) > Ms(20); }));
  EXPECT_FALSE(engine->health().since_forward.has_value());
  const auto steps = engine->recent_steps();
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_FALSE(steps[0].finished);
  EXPECT_EQ(steps[0].tokens, 4);
  control->release();
  collector.wait(id);
  EXPECT_TRUE(eventually([&] { return !engine->health().running; }));
  EXPECT_LT(engine->health().since_forward.value(), std::chrono::seconds(5));
}

TEST_F(Life, TheFlightRecorderKeepsTheLastThousandSteps) {
  options.max_model_len = 4096;
  options.scheduler.max_num_seqs = 2;
  start();
  const uint64_t id = engine->submit(letters(3, 1500));
  EXPECT_EQ(collector.wait(id).tokens.size(), 1500U);
  EXPECT_TRUE(eventually([&] { return !engine->health().running; }));
  const auto steps = engine->recent_steps();
  ASSERT_EQ(steps.size(), StepRing::kSteps);
  EXPECT_EQ(steps.front().number, 501U);
  EXPECT_EQ(steps.back().number, 1500U);
  for (const StepRecord& step : steps) {
    EXPECT_TRUE(step.finished);
    EXPECT_EQ(step.sequences, 1);
    EXPECT_EQ(step.tokens, 1);
  }
  const std::string line = describe_record(steps.back(), EngineClock::now());
  EXPECT_EQ(line.find("step 1500: began "), 0U) << line;
  EXPECT_NE(line.find("1 sequences, 1 tokens, 1 sampled, 1 running, 0 waiting, 24 pages held"),
            std::string::npos)
      << line;
}

TEST_F(Life, ProbesAreNotTraffic) {
  start();
  EngineRequest probe = letters(1, 1);
  probe.internal = true;
  collector.wait(engine->submit(probe));
  EXPECT_TRUE(eventually([&] { return engine->stats().steps == 1; }));
  EngineStats stats = engine->stats();
  EXPECT_EQ(stats.generated_tokens + stats.computed_tokens + stats.prefix_queries_tokens, 0U);
  EXPECT_EQ(stats.step_sizes.tokens, 0U);
  collector.wait(engine->submit(letters(5, 2)));
  EXPECT_TRUE(eventually([&] { return engine->stats().steps == 3; }));
  stats = engine->stats();
  EXPECT_EQ(stats.generated_tokens, 2U);
  EXPECT_EQ(stats.computed_tokens, 6U);
  EXPECT_EQ(stats.prefix_queries_tokens, 5U);
  EXPECT_EQ(stats.step_sizes.tokens, 6U);
  EXPECT_EQ(stats.step_sizes.steps[0], 1U);  // at most 1
  EXPECT_EQ(stats.step_sizes.steps[1], 1U);  // at most 8
}

TEST_F(Life, OutputsCarryTheirTimes) {
  std::mutex mutex;
  std::vector<StepOutput> seen;
  options.scheduler.max_num_seqs = 1;
  engine = std::make_unique<ServingEngine>(
      std::make_unique<bench::TimedExecutor>(bench::timed_config(256), 64, 64, control),
      Tokenizer::load(served_folder()), options, [&](std::span<StepOutput> outputs) {
        const std::lock_guard lock(mutex);
        for (StepOutput& output : outputs) seen.push_back(std::move(output));
      });
  control->step_us = 3000;
  engine->submit(letters(70, 2));
  engine->submit(letters(70, 1));  // waits for the first, then finds its page
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return seen.size() == 3;
  }));
  EXPECT_EQ(seen[0].times.cached_tokens, 0);
  EXPECT_EQ(seen[2].times.cached_tokens, 64);
  EXPECT_GE(seen[0].time - seen[0].times.started, Ms(6)) << "two chunks";
  EXPECT_GE(seen[2].times.started, seen[1].time);
  EXPECT_GE(seen[2].times.started - seen[2].times.submitted, Ms(5));
  EXPECT_GE(seen[2].time - seen[2].times.started, Ms(3));
}

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

TEST_F(Life, AnIdleEngineCostsNothing) {
  start();
  collector.wait(engine->submit(letters(5, 2)));
  std::this_thread::sleep_for(Ms(50));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(Ms(1000));
  EXPECT_LT(cpu_seconds() - before, 0.01);
}

TEST_F(Life, ABusyPollingEngineNeverSleepsAndStillEnds) {
  options.idle_spin = std::chrono::microseconds(-1);
  start();
  collector.wait(engine->submit(letters(5, 2)));
  const double before = cpu_seconds();
  EXPECT_TRUE(eventually([&] { return cpu_seconds() - before > 0.1; })) << "it does not look for work";
  EXPECT_EQ(collector.wait(engine->submit(letters(5, 2))).tokens.size(), 2U);
}

}  // namespace
}  // namespace glint::testing
