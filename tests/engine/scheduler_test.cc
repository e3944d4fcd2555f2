#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "simulated_tier.h"

namespace glint {
namespace {

/// Prompts differ from the first token on, unless the same one is asked for.
std::unique_ptr<Sequence> sequence(uint64_t id, int64_t prompt, int64_t output, TokenId token = -1) {
  auto made = std::make_unique<Sequence>();
  made->id = id;
  made->tokens.assign(static_cast<size_t>(prompt), token >= 0 ? token : static_cast<TokenId>(id));
  made->prompt_tokens = prompt;
  made->tokens_max = prompt + output;
  return made;
}

void add(Scheduler& scheduler, std::unique_ptr<Sequence> arrival) {
  scheduler.prepare(*arrival);
  SequenceList list;
  list.push_back(std::move(arrival));
  scheduler.add(list, list.begin());
  EXPECT_TRUE(list.empty());
}

bool remove(Scheduler& scheduler, uint64_t id) {
  SequenceList ended;
  const bool known = scheduler.remove(id, ended);
  EXPECT_EQ(ended.size(), known ? 1U : 0U);
  return known;
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
  std::vector<int64_t> valid;
  for (const ScheduledRows& part : rows) {
    valid.push_back(part.rows);
    if (!part.samples) continue;
    part.sequence->tokens.push_back(2);
    if (part.sequence->length() >= part.sequence->tokens_max) ended.push_back(part.sequence->id);
  }
  scheduler.commit(valid);
  for (const uint64_t id : ended) EXPECT_TRUE(remove(scheduler, id));
}

/// The same, with all drafts refused and none made.
void execute_without_drafts(Scheduler& scheduler) {
  const std::vector<ScheduledRows>& rows = scheduler.schedule();
  std::vector<int64_t> valid;
  std::vector<uint64_t> ended;
  for (const ScheduledRows& part : rows) {
    Sequence& one = *part.sequence;
    valid.push_back(part.rows - (part.samples ? static_cast<int64_t>(one.drafts.size()) : 0));
    if (!part.samples) continue;
    one.drafts.clear();
    one.tokens.push_back(3);
    if (one.length() >= one.tokens_max) ended.push_back(one.id);
  }
  scheduler.commit(valid);
  for (const uint64_t id : ended) EXPECT_TRUE(remove(scheduler, id));
}

TEST(Scheduler, DecodesAloneTakeNoPageFromAnyone) {
  Scheduler scheduler({.max_num_seqs = 2, .max_num_batched_tokens = 128, .num_speculative_tokens = 8}, 2);
  add(scheduler, sequence(1, 40, 80));
  add(scheduler, sequence(2, 40, 80));
  for (int step = 0; step < 9; ++step) execute(scheduler, scheduler.schedule());
  EXPECT_EQ(scheduler.counts().preemptions, 0U);
  // From 49 tokens on schedule() would hold a second page for twice 8 drafts.
  const std::vector<ScheduledRows>& rows = scheduler.schedule_decodes_alone();
  EXPECT_EQ(rows.size(), 2U);
  EXPECT_EQ(scheduler.counts().preemptions, 0U);
  execute(scheduler, rows);
  EXPECT_FALSE(scheduler.wants_a_look());
  EXPECT_EQ(scheduler.schedule().size(), 1U);
  EXPECT_EQ(scheduler.counts().preemptions, 1U);
  EXPECT_TRUE(scheduler.wants_a_look());  // whoever was preempted was not asked for again
  scheduler.commit({1});
}

TEST(Scheduler, HoldsPagesAheadAsFarAsNobodyLosesAny) {
  Scheduler scheduler({.max_num_seqs = 2, .max_num_batched_tokens = 128}, 5);
  add(scheduler, sequence(1, 60, 10));
  add(scheduler, sequence(2, 60, 10));
  execute(scheduler, scheduler.schedule());
  scheduler.schedule();
  EXPECT_TRUE(scheduler.hold_pages(3));
  EXPECT_EQ(scheduler.pool().held(), 2);
  EXPECT_TRUE(scheduler.hold_pages(4));  // 61 tokens and 4
  EXPECT_EQ(scheduler.pool().held(), 4);
  EXPECT_FALSE(scheduler.hold_pages(70));  // one page is left for two
  EXPECT_EQ(scheduler.pool().held(), 5);
  const std::vector<ScheduledRows>& rows = scheduler.schedule_decodes_alone();
  EXPECT_EQ(rows.size(), 2U);
  scheduler.commit({1, 1});
  EXPECT_TRUE(remove(scheduler, 1));
  EXPECT_TRUE(remove(scheduler, 2));
  EXPECT_EQ(scheduler.pool().held(), 0);
}

TEST(Scheduler, CutsAPromptByTheBudgetAndSamplesAtItsEnd) {
  Scheduler scheduler({.max_num_seqs = 2, .max_num_batched_tokens = 10}, 100);
  add(scheduler, sequence(1, 25, 5));
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
  add(scheduler, sequence(1, 1, 50));
  execute(scheduler, scheduler.schedule());
  add(scheduler, sequence(2, 1000, 5));
  add(scheduler, sequence(3, 6, 5));
  EXPECT_EQ(planned(scheduler), (Rows{{1, 1}, {2, 9}, {3, 6}}));
}

TEST(Scheduler, StartsARequestOnlyWhenItsPromptFits) {
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 256}, 2);
  add(scheduler, sequence(1, 60, 4));   // one page
  add(scheduler, sequence(2, 100, 1));  // two pages: has to wait
  EXPECT_EQ(planned(scheduler), (Rows{{1, 60}}));
  EXPECT_EQ(scheduler.waiting(), 1);
  EXPECT_TRUE(remove(scheduler, 1));
  EXPECT_EQ(planned(scheduler), (Rows{{2, 100}}));
  EXPECT_FALSE(scheduler.fits(64 * 2 + 1));
  EXPECT_TRUE(scheduler.fits(64 * 2));
}

TEST(Scheduler, PreemptsTheYoungestAndResumesIt) {
  for (const bool caching : {false, true}) {
    Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 256, .prefix_caching = caching}, 3);
    add(scheduler, sequence(1, 60, 100));
    add(scheduler, sequence(2, 60, 100));
    execute(scheduler, scheduler.schedule());
    for (int step = 0; step < 8; ++step) execute(scheduler, scheduler.schedule());
    // Both want a second page; only one is left, and the older one takes it.
    EXPECT_EQ(planned(scheduler), (Rows{{1, 1}}));
    EXPECT_EQ(scheduler.waiting(), 1);
    EXPECT_EQ(scheduler.counts().preemptions, 1U);
    EXPECT_TRUE(remove(scheduler, 1));
    // It had 65 tokens: all of them again, or the last alone if its page is still there.
    EXPECT_EQ(planned(scheduler), (Rows{{2, caching ? 1 : 65}}));
  }
}

TEST(Scheduler, SkipsAheadButNotForEver) {
  Scheduler scheduler({.max_num_seqs = 8, .max_num_batched_tokens = 512}, 4);
  add(scheduler, sequence(1, 100, 100));  // two pages, then more
  execute(scheduler, scheduler.schedule());
  add(scheduler, sequence(2, 180, 10));  // three pages: cannot start beside the first
  int passed = 0;
  for (uint64_t id = 3; id < 100; ++id) {
    add(scheduler, sequence(id, 5, 1));
    const Rows rows = planned(scheduler);
    const bool started =
        std::any_of(rows.begin(), rows.end(), [id](const auto& row) { return row.first == id; });
    passed += started;
    execute(scheduler, scheduler.schedule());
    if (!started) break;
  }
  EXPECT_EQ(passed, Scheduler::kPassesMax);
}

TEST(Scheduler, FindsThePagesOfAnEqualPrefix) {
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 512}, 20);
  add(scheduler, sequence(1, 200, 1, 7));
  execute(scheduler, scheduler.schedule());
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(scheduler.pool().held(), 0);
  add(scheduler, sequence(2, 200, 1, 7));
  EXPECT_EQ(planned(scheduler), (Rows{{2, 200 - 192}}));
  execute(scheduler, scheduler.schedule());
  add(scheduler, sequence(3, 192, 1, 7));  // the last token is computed even if its page is there
  EXPECT_EQ(planned(scheduler), (Rows{{3, 64}}));
  execute(scheduler, scheduler.schedule());
  auto salted = sequence(4, 200, 1, 7);
  salted->chain = chain_root("", "other tenant");
  add(scheduler, std::move(salted));
  EXPECT_EQ(planned(scheduler), (Rows{{4, 200}}));
  EXPECT_EQ(scheduler.counts().prefix_hits_tokens, 192U + 128U);
}

TEST(Scheduler, TakesLessOfALongPromptAsItsContextGrows) {
  Scheduler scheduler({.max_num_seqs = 2, .max_num_batched_tokens = 100, .context_cost_tokens = 1000}, 1000);
  add(scheduler, sequence(1, 10000, 5));
  int64_t first = 0;
  int64_t last = 0;
  while (!scheduler.schedule()[0].samples) {
    last = scheduler.schedule()[0].rows;
    if (first == 0) first = last;
    execute(scheduler, scheduler.schedule());
  }
  EXPECT_EQ(first, 100);
  EXPECT_LE(last, 10);
}

TEST(Scheduler, DescribesAStepRowByRow) {
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 256}, 100);
  add(scheduler, sequence(1, 70, 10));
  add(scheduler, sequence(2, 2, 10));
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

/// A tier that holds the first `pages` pages of prompts of that token.
void hold(SimulatedTier& tier, TokenId token, int64_t pages) {
  PageHash hash = sequence(1, 1, 1)->chain;
  for (int64_t page = 0; page < pages; ++page) {
    hash = chain_next(hash, std::vector<TokenId>(64, token));
    tier.put(hash, std::vector<TokenId>(static_cast<size_t>(page + 1) * 64, token));
  }
}

TEST(Scheduler, RestoresFromTheTierWhileOthersRun) {
  SimulatedTier tier(0);
  hold(tier, 7, 3);
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 512}, 20, &tier);
  add(scheduler, sequence(1, 10, 50));
  add(scheduler, sequence(2, 200, 5, 7));
  EXPECT_EQ(planned(scheduler), (Rows{{1, 10}}));
  EXPECT_EQ(scheduler.running(), 2);
  EXPECT_TRUE(scheduler.waiting_for_tier());
  tier.end_all(true);
  EXPECT_EQ(planned(scheduler), (Rows{{1, 10}, {2, 200 - 192}}));
  EXPECT_EQ(scheduler.counts().tier_queries_tokens, 10U + 200U);
  EXPECT_EQ(scheduler.counts().tier_hits_tokens, 192U);
  EXPECT_EQ(scheduler.counts().prefix_hits_tokens, 0U);
}

TEST(Scheduler, RestoresNothingOfThePageThatHoldsTheLastToken) {
  for (const int64_t length : {191, 192, 193}) {
    SimulatedTier tier(0);
    hold(tier, 7, 3);
    Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 512}, 20, &tier);
    add(scheduler, sequence(1, length, 5, 7));
    EXPECT_EQ(planned(scheduler), Rows{});
    tier.end_all(true);
    EXPECT_EQ(planned(scheduler), (Rows{{1, length - (length - 1) / 64 * 64}}));
  }
}

TEST(Scheduler, ComputesWhatTheTierFailsToGive) {
  SimulatedTier tier(0);
  hold(tier, 7, 5);
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 512}, 20, &tier);
  add(scheduler, sequence(1, 400, 5, 7));
  EXPECT_EQ(planned(scheduler), Rows{});
  tier.end(3, true);  // the loads, in the order of the pages
  tier.end(2, false);
  tier.end(0, true);
  EXPECT_EQ(planned(scheduler), Rows{}) << "the second page may still come";
  tier.end_all(true);
  EXPECT_EQ(planned(scheduler), (Rows{{1, 400 - 128}}));
  EXPECT_EQ(scheduler.pool().held(), 7);
}

TEST(Scheduler, AnAbortWhileRestoringLosesNoPage) {
  SimulatedTier tier(0);
  hold(tier, 7, 5);
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 512}, 20, &tier);
  add(scheduler, sequence(1, 400, 5, 7));
  EXPECT_EQ(planned(scheduler), Rows{});
  tier.start_copying(1);  // this one cannot be withdrawn any more
  EXPECT_TRUE(remove(scheduler, 1));
  EXPECT_EQ(scheduler.pool().held(), 1) << "a page that is being written to was given away";
  tier.end_all(true);
  EXPECT_EQ(planned(scheduler), Rows{});
  EXPECT_EQ(scheduler.pool().held(), 0);
}

TEST(Scheduler, TwoRequestsRestoreOnePrefixOnce) {
  SimulatedTier tier(0);
  hold(tier, 7, 3);
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 512}, 20, &tier);
  add(scheduler, sequence(1, 200, 5, 7));
  add(scheduler, sequence(2, 250, 5, 7));
  EXPECT_EQ(planned(scheduler), Rows{});
  EXPECT_EQ(tier.under_way(), 3);
  tier.end_all(true);
  EXPECT_EQ(planned(scheduler), (Rows{{1, 8}, {2, 250 - 192}}));
  EXPECT_EQ(tier.under_way(), 0);
}

TEST(Scheduler, AStoreGivesWayToARequestThatNeedsThePage) {
  SimulatedTier tier(0);
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 512}, 4, &tier);
  add(scheduler, sequence(1, 250, 1, 7));
  execute(scheduler, scheduler.schedule());
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(tier.under_way(), 3);
  EXPECT_EQ(scheduler.pool().held(), 3);
  add(scheduler, sequence(2, 100, 1, 8));
  EXPECT_EQ(planned(scheduler), (Rows{{2, 100}}));
  EXPECT_EQ(tier.under_way(), 2) << "one page was free, one had to give way";
  tier.start_copying(0);
  tier.start_copying(1);
  add(scheduler, sequence(3, 100, 1, 9));
  EXPECT_TRUE(remove(scheduler, 2));
  EXPECT_EQ(planned(scheduler), (Rows{{3, 100}}));
  execute(scheduler, scheduler.schedule());
  add(scheduler, sequence(4, 200, 1, 6));
  EXPECT_EQ(planned(scheduler), Rows{}) << "pages that are being copied are not used";
  tier.end_all(true);
  EXPECT_EQ(planned(scheduler), (Rows{{4, 200}}));
}

/// The load's own record of what stands in the pages, for checking what the scheduler takes from the tier.
struct Contents {
  std::map<int32_t, std::vector<TokenId>> written;  // by page: the tokens up to its end

  void write(const Sequence& one, int64_t computed) {
    for (int64_t page = 0; (page + 1) * 64 <= computed; ++page) {
      const auto end = one.tokens.begin() + (page + 1) * 64;
      written[one.pages[static_cast<size_t>(page)]].assign(one.tokens.begin(), end);
    }
  }
  /// True if the leading full pages of what is computed hold the sequence's own tokens.
  [[nodiscard]] bool right(const Sequence& one) const {
    for (int64_t page = 0; (page + 1) * 64 <= one.computed; ++page) {
      const auto found = written.find(one.pages[static_cast<size_t>(page)]);
      const auto end = one.tokens.begin() + (page + 1) * 64;
      if (found == written.end() || found->second != std::vector<TokenId>(one.tokens.begin(), end))
        return false;
    }
    return true;
  }
};

// Arrivals, aborts, drafts that are refused, prompts that are longer than the pool leaves room for, pools of
// a few pages; with a tier also restores that come late, fail, or are aborted.
void run_random_load(uint32_t seed, int steps, SimulatedTier* tier = nullptr) {
  std::mt19937 random(seed);
  const int64_t drafts = seed % 3;
  const int64_t pages = 4 + static_cast<int64_t>(random() % 12);
  const int64_t budget = 20 + static_cast<int64_t>(random() % 60);
  Scheduler scheduler({.max_num_seqs = 5,
                       .max_num_batched_tokens = budget,
                       .prefix_caching = seed % 2 == 0,
                       .num_speculative_tokens = drafts,
                       .context_cost_tokens = 200},
                      pages, tier);
  Contents contents;
  if (tier != nullptr) tier->attach(contents.written);
  uint64_t next_id = 1;
  std::map<uint64_t, int> waited;  // steps since a sequence last had rows or was the oldest
  for (int step = 0; step < steps; ++step) {
    if (random() % 4 == 0 && waited.size() < 40) {
      const auto prompt = static_cast<int64_t>(1 + random() % 400);
      const auto output = static_cast<int64_t>(1 + random() % 100);
      if (scheduler.fits(prompt + output)) {
        auto made = sequence(next_id, prompt, output);
        for (TokenId& token : made->tokens) token = static_cast<TokenId>(random() % 2);
        if (random() % 2 == 0) std::fill(made->tokens.begin(), made->tokens.end(), 7);
        add(scheduler, std::move(made));
        waited[next_id++] = 0;
      }
    }
    if (random() % 50 == 0 && !waited.empty()) {
      const uint64_t id = std::next(waited.begin(), static_cast<int64_t>(random() % waited.size()))->first;
      ASSERT_TRUE(remove(scheduler, id));
      waited.erase(id);
    }
    if (tier != nullptr) tier->work(random);
    const std::vector<ScheduledRows>& rows = scheduler.schedule();
    ASSERT_TRUE(!rows.empty() || scheduler.idle() || scheduler.waiting_for_tier())
        << "something waits and nothing runs";
    ASSERT_EQ(scheduler.waiting_for_tier(), tier != nullptr && tier->under_way() > 0);
    int64_t total = 0;
    for (const ScheduledRows& part : rows) total += part.rows;
    ASSERT_LE(total, budget);
    if (!rows.empty() && scheduler.running() > 0) {
      // The oldest running sequence that has its pages always has rows: that is what progress rests on.
      const std::vector<Sequence*> all = scheduler.all();
      const auto ready =
          std::find_if(all.begin(), all.end(), [](const auto* one) { return !one->restoring(); });
      const uint64_t oldest = (*ready)->id;
      ASSERT_TRUE(std::any_of(rows.begin(), rows.end(),
                              [&](const auto& part) { return part.sequence->id == oldest; }));
    }
    std::vector<int64_t> valid;
    std::vector<uint64_t> ended;
    for (auto& [id, count] : waited) ++count;
    for (const ScheduledRows& part : rows) {
      Sequence& one = *part.sequence;
      waited[one.id] = 0;
      ASSERT_FALSE(one.restoring());
      ASSERT_TRUE(tier == nullptr || contents.right(one)) << "a page holds something else";
      const int64_t reach = one.computed + part.rows;
      ASSERT_LE(reach, static_cast<int64_t>(one.pages.size()) * 64) << "rows without a page";
      const auto drafted = static_cast<int64_t>(one.drafts.size());
      const int64_t accepted =
          part.samples && drafted > 0 ? static_cast<int64_t>(random()) % (drafted + 1) : 0;
      valid.push_back(part.rows - (part.samples ? drafted - accepted : 0));
      if (!part.samples) continue;
      for (int64_t i = 0; i <= accepted; ++i) one.tokens.push_back(static_cast<TokenId>(random() % 2));
      one.drafts.assign(
          static_cast<size_t>(std::max<int64_t>(0, std::min(drafts, one.tokens_max - one.length() - 1))), 1);
      if (one.length() >= one.tokens_max) ended.push_back(one.id);
    }
    if (tier != nullptr) {
      for (size_t i = 0; i < rows.size(); ++i)
        contents.write(*rows[i].sequence, rows[i].sequence->computed + valid[i]);
    }
    scheduler.commit(valid);
    for (const uint64_t id : ended) {
      ASSERT_TRUE(remove(scheduler, id));
      waited.erase(id);
    }
    std::set<int32_t> held;
    for (const Sequence* left : scheduler.all()) held.insert(left->pages.begin(), left->pages.end());
    if (tier != nullptr) tier->add_held(held);
    ASSERT_EQ(static_cast<int64_t>(held.size()), scheduler.pool().held()) << "a page is lost or held twice";
    for (const auto& [id, count] : waited) {
      // 40 requests of at most 500 tokens, one row a step at worst, each passed at most kPassesMax times.
      ASSERT_LT(count, 40 * 500 * 2) << "sequence " << id << " starves";
    }
  }
  for (int step = 0; step < 200000 && !(scheduler.idle() && !scheduler.waiting_for_tier()); ++step) {
    if (tier != nullptr) tier->work(random);
    execute_without_drafts(scheduler);
  }
  ASSERT_TRUE(scheduler.idle()) << "it does not run dry";
  ASSERT_EQ(scheduler.pool().held(), 0);
}

TEST(Scheduler, RandomLoadNeverStallsAndLosesNoPage) {
  // 120,000 steps in all.
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    run_random_load(seed, 3000);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Scheduler, RandomLoadWithATierNeverStallsAndLosesNoPage) {
  SimulatedTier::Counts counts;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    SimulatedTier tier(seed / 2 % 4);
    run_random_load(seed, 3000, &tier);
    if (::testing::Test::HasFatalFailure()) return;
    counts.add(tier.counts());
  }
  // The load did meet what it is about.
  std::printf("%d stored, %d loaded, %d failed, %d stores and %d loads withdrawn, %d withdrawals refused\n",
              counts.stored, counts.loaded, counts.failed, counts.stores_withdrawn, counts.loads_withdrawn,
              counts.refused);
  EXPECT_GT(counts.stored, 1000);
  EXPECT_GT(counts.loaded, 1000);
  EXPECT_GT(counts.failed, 100);
  EXPECT_GT(counts.stores_withdrawn, 100);
  EXPECT_GT(counts.loads_withdrawn, 100);
  EXPECT_GT(counts.refused, 10);
}

}  // namespace
}  // namespace glint
