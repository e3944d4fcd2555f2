#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace glint {
namespace {

std::unique_ptr<Sequence> sequence(uint64_t id, int64_t prompt, int64_t output) {
  auto made = std::make_unique<Sequence>();
  made->id = id;
  made->tokens.assign(static_cast<size_t>(prompt), 1);
  made->prompt_tokens = prompt;
  made->tokens_max = prompt + output;
  return made;
}

/// Rows by sequence id, in the order of the step.
std::vector<std::pair<uint64_t, int64_t>> planned(Scheduler& scheduler) {
  std::vector<std::pair<uint64_t, int64_t>> rows;
  for (const ScheduledRows& part : scheduler.schedule()) rows.emplace_back(part.sequence->id, part.rows);
  return rows;
}

using Rows = std::vector<std::pair<uint64_t, int64_t>>;

/// Executes the planned step: every sampling sequence gets a token.
void execute(Scheduler& scheduler, const std::vector<ScheduledRows>& rows) {
  std::vector<uint64_t> ended;
  for (const ScheduledRows& part : rows) {
    if (!part.samples) continue;
    part.sequence->tokens.push_back(2);
    if (part.sequence->length() >= part.sequence->tokens_max) ended.push_back(part.sequence->id);
  }
  scheduler.commit();
  for (const uint64_t id : ended) EXPECT_TRUE(scheduler.remove(id));
}

TEST(Scheduler, CutsAPromptByTheBudgetAndSamplesAtItsEnd) {
  Scheduler scheduler({.max_num_seqs = 2, .max_num_batched_tokens = 10}, 100);
  scheduler.add(sequence(1, 25, 5));
  EXPECT_EQ(planned(scheduler), (Rows{{1, 10}}));
  EXPECT_FALSE(scheduler.schedule()[0].samples);
  execute(scheduler, scheduler.schedule());
  execute(scheduler, scheduler.schedule());
  EXPECT_EQ(planned(scheduler), (Rows{{1, 5}}));
  EXPECT_TRUE(scheduler.schedule()[0].samples);
  execute(scheduler, scheduler.schedule());
  EXPECT_EQ(planned(scheduler), (Rows{{1, 1}}));
}

TEST(Scheduler, DecodesFirstAndLetsAShortPromptPassALongOne) {
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 16}, 1000);
  scheduler.add(sequence(1, 1, 50));
  execute(scheduler, scheduler.schedule());
  scheduler.add(sequence(2, 1000, 5));
  scheduler.add(sequence(3, 6, 5));
  EXPECT_EQ(planned(scheduler), (Rows{{1, 1}, {2, 7}, {3, 6}}));
}

TEST(Scheduler, StartsARequestOnlyWhenAllItsPagesAreFree) {
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 256}, 3);
  scheduler.add(sequence(1, 64, 64));  // two pages
  scheduler.add(sequence(2, 100, 1));  // two pages: has to wait
  EXPECT_EQ(planned(scheduler), (Rows{{1, 64}}));
  EXPECT_EQ(scheduler.waiting(), 1);
  EXPECT_EQ(scheduler.pages_used(), 2);
  EXPECT_TRUE(scheduler.remove(1));
  EXPECT_EQ(planned(scheduler), (Rows{{2, 100}}));
  EXPECT_FALSE(scheduler.fits(64 * 3 + 1));
  EXPECT_TRUE(scheduler.fits(64 * 3));
}

TEST(Scheduler, DescribesAStepRowByRow) {
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 256}, 100);
  scheduler.add(sequence(1, 70, 10));
  scheduler.add(sequence(2, 2, 10));
  StepDescription step;
  describe_step(scheduler.schedule(), step);
  ASSERT_EQ(step.tokens.size(), 72U);
  EXPECT_EQ(step.context_max, 70);
  EXPECT_EQ(step.pages_stride, 2);
  EXPECT_EQ(step.positions[69], 69);
  EXPECT_EQ(step.sequences[70], 1);
  EXPECT_EQ(step.positions[71], 1);
  EXPECT_EQ(step.logits_rows, (std::vector<int32_t>{69, 71}));
  ASSERT_EQ(step.pages.size(), 4U);
  EXPECT_EQ(std::set<int32_t>(step.pages.begin(), step.pages.begin() + 3).size(), 3U);
}

TEST(Scheduler, RandomLoadNeverStallsAndLosesNoPage) {
  std::mt19937 random(3);
  Scheduler scheduler({.max_num_seqs = 5, .max_num_batched_tokens = 40}, 12);
  uint64_t next_id = 1;
  std::set<uint64_t> alive;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 4 == 0) {
      const auto prompt = static_cast<int64_t>(1 + random() % 400);
      const auto output = static_cast<int64_t>(1 + random() % 100);
      if (scheduler.fits(prompt + output)) {
        scheduler.add(sequence(next_id, prompt, output));
        alive.insert(next_id++);
      }
    }
    if (random() % 50 == 0 && !alive.empty()) scheduler.remove(*alive.begin());
    const std::vector<ScheduledRows>& rows = scheduler.schedule();
    ASSERT_TRUE(!rows.empty() || scheduler.idle()) << "something waits and nothing runs";
    int64_t total = 0;
    for (const ScheduledRows& part : rows) total += part.rows;
    ASSERT_LE(total, 40);
    execute(scheduler, rows);
    alive.clear();
    int64_t pages = 0;
    for (const Sequence* left : scheduler.all()) {
      alive.insert(left->id);
      pages += static_cast<int64_t>(left->pages.size());
    }
    ASSERT_EQ(pages, scheduler.pages_used());
  }
}

}  // namespace
}  // namespace glint
