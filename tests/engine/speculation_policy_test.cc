#include "engine/speculation_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace glint {
namespace {

TEST(CostTable, InterpolatesAndExtends) {
  CostTable table(1000);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.estimate(5), 0);
  table.measured(4, 2.0);
  table.measured(8, 4.0);
  EXPECT_DOUBLE_EQ(table.estimate(4), 2.0);
  EXPECT_DOUBLE_EQ(table.estimate(6), 3.0);
  EXPECT_DOUBLE_EQ(table.estimate(16), 8.0);  // in proportion
  EXPECT_DOUBLE_EQ(table.estimate(1), 1.0);   // 2 * sqrt(1/4)
  for (int i = 0; i < 100; ++i) table.measured(8, 6.0);
  EXPECT_NEAR(table.estimate(8), 6.0, 1e-6);
  table.measured(1000, 50.0);
  EXPECT_NEAR(table.estimate(504), 28.0, 1e-6);
}

/// A device and a text: what steps cost, and how likely the draft at each place is right.
struct World {
  double step_fixed, step_per_row, draft_fixed, draft_per_sequence;
  double acceptance;        // at place 0
  double acceptance_decay;  // from place to place
  [[nodiscard]] double execute(int64_t rows) const {
    return step_fixed + step_per_row * static_cast<double>(rows);
  }
  [[nodiscard]] double draft(int64_t sequences, int64_t tokens) const {
    return static_cast<double>(tokens) * (draft_fixed + draft_per_sequence * static_cast<double>(sequences));
  }
  [[nodiscard]] double at(int64_t place) const {
    return acceptance * std::pow(acceptance_decay, static_cast<double>(place));
  }
  /// Tokens a second and sequence with k drafts at every step: computed without the policy.
  [[nodiscard]] double rate(int64_t sequences, int64_t tokens) const {
    double gained = 1;
    double reached = 1;
    for (int64_t i = 0; i < tokens; ++i) gained += reached *= at(i);
    return gained / (execute(sequences * (tokens + 1)) + draft(sequences, tokens));
  }
};

/// Tokens a second and sequence that the policy reaches over `steps` steps in the world, all measurements off
/// by up to `noise` of their size.
double reached_rate(const World& world, int64_t sequences, int steps, double noise, uint32_t seed) {
  constexpr int64_t kDrafts = 8;
  SpeculationPolicy policy(kDrafts, 64);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto measured = [&](double seconds) { return seconds * (1 + noise * (2 * uniform(random) - 1)); };
  double seconds = 0;
  double tokens = 0;
  int64_t drafts = 0;
  for (int step = 0; step < steps; ++step) {
    const double execute = world.execute(sequences * (drafts + 1));
    policy.executed(sequences * (drafts + 1), measured(execute));
    for (int64_t sequence = 0; sequence < sequences; ++sequence) {
      int64_t accepted = 0;
      while (accepted < drafts && uniform(random) < world.at(accepted)) ++accepted;
      if (drafts > 0) policy.verified(drafts, accepted);
      tokens += static_cast<double>(1 + accepted);
    }
    drafts = policy.choose(sequences);
    const double draft = world.draft(sequences, drafts);
    if (drafts > 0) policy.drafted(sequences, drafts, measured(draft));
    seconds += execute + draft;
  }
  return tokens / static_cast<double>(sequences) / seconds;
}

TEST(SpeculationPolicy, IsHardlySlowerThanTheBestFixedNumber) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  int plain_was_best = 0;
  int deep_was_best = 0;
  for (uint32_t world_number = 0; world_number < 60; ++world_number) {
    const World world{.step_fixed = 1,
                      .step_per_row = std::pow(10.0, -4 + 3.5 * uniform(random)),
                      .draft_fixed = std::pow(10.0, -2.5 + 2 * uniform(random)),
                      .draft_per_sequence = 0.003 * uniform(random),
                      .acceptance = std::sqrt(uniform(random)),
                      .acceptance_decay = 0.85 + 0.15 * uniform(random)};
    const auto sequences = static_cast<int64_t>(1 + random() % 40);
    double best = 0;
    int64_t best_tokens = 0;
    for (int64_t tokens = 0; tokens <= 8; ++tokens) {
      if (world.rate(sequences, tokens) > best) {
        best = world.rate(sequences, tokens);
        best_tokens = tokens;
      }
    }
    plain_was_best += best_tokens == 0;
    deep_was_best += best_tokens >= 4;
    const double reached = reached_rate(world, sequences, 6000, 0.05, world_number);
    EXPECT_GT(reached, 0.95 * best) << "world " << world_number << ", best with " << best_tokens;
    EXPECT_GT(reached, 0.98 * world.rate(sequences, 0)) << "world " << world_number << ": slower than plain";
  }
  EXPECT_GT(plain_was_best, 5);
  EXPECT_GT(deep_was_best, 5);
}

TEST(SpeculationPolicy, StopsDraftingWhatIsNeverRight) {
  const World world{.step_fixed = 1,
                    .step_per_row = 0.05,
                    .draft_fixed = 0.1,
                    .draft_per_sequence = 0.01,
                    .acceptance = 0,
                    .acceptance_decay = 1};
  EXPECT_GT(reached_rate(world, 8, 20000, 0.05, 1), 0.99 * world.rate(8, 0));
}

TEST(SpeculationPolicy, FollowsATextThatBecomesPredictable) {
  SpeculationPolicy policy(4, 8);
  const World dull{.step_fixed = 1,
                   .step_per_row = 0.01,
                   .draft_fixed = 0.05,
                   .draft_per_sequence = 0,
                   .acceptance = 0,
                   .acceptance_decay = 1};
  int64_t drafts = 0;
  const auto run = [&](int steps, int64_t accepted_of_all) {
    int64_t sum = 0;
    for (int step = 0; step < steps; ++step) {
      policy.executed(4 * (drafts + 1), dull.execute(4 * (drafts + 1)));
      if (drafts > 0) policy.verified(drafts, std::min(drafts, accepted_of_all));
      drafts = policy.choose(4);
      policy.drafted(4, drafts, dull.draft(4, drafts));
      sum += drafts;
    }
    return static_cast<double>(sum) / steps;
  };
  run(3000, 0);
  EXPECT_LT(run(1000, 0), 0.05);
  run(60000, 4);
  EXPECT_GT(run(1000, 4), 3.5);
}

}  // namespace
}  // namespace glint
