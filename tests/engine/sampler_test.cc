#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace glint {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TokenId sample(std::vector<float> logits, const SamplingParams& params, uint64_t seed = 0,
               int64_t position = 0, std::vector<TokenId> forbidden = {}, std::vector<bool> sampleable = {}) {
  if (sampleable.empty()) sampleable.assign(logits.size(), true);
  return Sampler(sampleable).sample(logits, params, seed, position, forbidden);
}

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

/// How often each id came in many draws at different positions.
std::map<TokenId, double> shares(const std::vector<float>& logits, const SamplingParams& params,
                                 int draws = 40000) {
  Sampler sampler(std::vector<bool>(logits.size(), true));
  std::map<TokenId, double> result;
  for (int position = 0; position < draws; ++position) {
    std::vector<float> copy = logits;
    result[sampler.sample(copy, params, 5, position, {})] += 1.0 / draws;
  }
  return result;
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdOfEquals) {
  EXPECT_EQ(sample({1, 3, 3, 2}, greedy()), 1);
  EXPECT_EQ(sample({-5, -5}, greedy()), 0);
}

TEST(Sampler, NeverTakesPaddingOrForbiddenIds) {
  EXPECT_EQ(sample({1, 2, 9}, greedy(), 0, 0, {}, {true, true, false}), 1);
  EXPECT_EQ(sample({1, 2, 9}, greedy(), 0, 0, {1}, {true, true, false}), 0);
  SamplingParams hot;
  hot.temperature = 2;
  Sampler sampler({true, false, true});
  for (int position = 0; position < 2000; ++position) {
    std::vector<float> logits = {0, 50, 0};
    EXPECT_NE(sampler.sample(logits, hot, 3, position, {}), 1);
  }
}

TEST(Sampler, RefusesWhatIsNotANumber) {
  EXPECT_EQ(sample({1, kNan, 2}, greedy()), -1);
  EXPECT_EQ(sample({1, kInf, 2}, greedy()), -1);
  EXPECT_EQ(sample({-kInf, -kInf}, greedy()), -1);
  EXPECT_EQ(sample({1, kNan}, greedy(), 0, 0, {}, {true, false}), 0) << "a padding row may hold anything";
}

TEST(Sampler, FollowsTheSoftmaxOfLogitsOverTemperature) {
  SamplingParams params;
  params.temperature = 0.5F;
  const std::map<TokenId, double> found = shares({0.0F, 0.5F, -0.5F}, params);
  const double sum = std::exp(0.0) + std::exp(1.0) + std::exp(-1.0);
  // 40,000 draws: a standard deviation below 0.0025.
  EXPECT_NEAR(found.at(0), std::exp(0.0) / sum, 0.0125);
  EXPECT_NEAR(found.at(1), std::exp(1.0) / sum, 0.0125);
  EXPECT_NEAR(found.at(2), std::exp(-1.0) / sum, 0.0125);
}

TEST(Sampler, TopKKeepsTheLowestIdsOfEquals) {
  SamplingParams params;
  params.top_k = 2;
  const std::map<TokenId, double> found = shares({1, 0, 0, 0}, params);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NEAR(found.at(0), std::exp(1.0) / (std::exp(1.0) + 1), 0.0125);
  EXPECT_TRUE(found.count(1));
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  // Probabilities 0.5, 0.3, 0.2.
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  SamplingParams params;
  params.top_p = 0.45F;
  EXPECT_EQ(shares(logits, params).size(), 1U);
  params.top_p = 0.55F;
  EXPECT_EQ(shares(logits, params).size(), 2U);
  params.top_p = 0.85F;
  EXPECT_EQ(shares(logits, params).size(), 3U);
  params.top_p = 1e-6F;
  EXPECT_EQ(shares(logits, params).size(), 1U) << "at least one is always kept";
}

TEST(Sampler, TopPOverManyCandidatesEqualsTheDefinition) {
  std::vector<float> logits;
  for (int id = 0; id < 3000; ++id) logits.push_back(static_cast<float>((id * 7919) % 3000) * 0.002F);
  SamplingParams params;
  params.top_p = 0.6F;
  // By the definition: sort, add up, count.
  std::vector<double> weights;
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit));
  for (const float logit : logits) weights.push_back(std::exp(static_cast<double>(logit)) / total);
  std::sort(weights.rbegin(), weights.rend());
  size_t kept = 0;
  for (double sum = 0; sum < 0.6; ++kept) sum += weights[kept];
  const double least = weights[kept - 1];
  for (const auto& [id, share] : shares(logits, params, 3000)) {
    EXPECT_GE(std::exp(static_cast<double>(logits[static_cast<size_t>(id)])) / total, least * 0.999);
  }
}

TEST(Sampler, MinPIsRelativeToTheLargest) {
  const std::vector<float> logits = {0, std::log(0.5F), std::log(0.05F)};
  SamplingParams params;
  params.min_p = 0.1F;
  EXPECT_EQ(shares(logits, params).size(), 2U);
  params.min_p = 0.04F;
  EXPECT_EQ(shares(logits, params).size(), 3U);
}

TEST(Sampler, ATokenIsAFunctionOfSeedAndPosition) {
  SamplingParams params;
  std::vector<float> logits;
  for (int id = 0; id < 500; ++id) logits.push_back(static_cast<float>(id % 17) * 0.1F);
  int different = 0;
  for (int64_t position = 0; position < 50; ++position) {
    const TokenId first = sample(logits, params, 42, position);
    EXPECT_EQ(sample(logits, params, 42, position), first);
    different += sample(logits, params, 43, position) != first;
  }
  EXPECT_GT(different, 40);
}

TEST(Sampler, UniformNumbersAreUniform) {
  double sum = 0;
  double squares = 0;
  for (int64_t position = 0; position < 100000; ++position) {
    const double u = uniform_at(7, position);
    ASSERT_TRUE(u >= 0 && u < 1);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
  EXPECT_NEAR(squares / 100000, 1.0 / 3, 0.005);
}

}  // namespace
}  // namespace glint
