#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace glint {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TokenId sample(std::vector<float> logits, const SamplingParams& params, uint64_t seed = 0,
               int64_t position = 0, const std::vector<TokenId>& forbidden = {},
               std::vector<bool> sampleable = {}) {
  if (sampleable.empty()) sampleable.assign(logits.size(), true);
  Sampler sampler(sampleable);
  ScannedRow row;
  for (const TokenId id : forbidden) logits[static_cast<size_t>(id)] = -kInf;
  return sampler.scan(logits, row) ? sampler.take(row, params, draw_key(seed, position)) : -1;
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
    ScannedRow row;
    EXPECT_TRUE(sampler.scan(copy, row));
    result[sampler.take(row, params, draw_key(5, position))] += 1.0 / draws;
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
    ScannedRow row;
    ASSERT_TRUE(sampler.scan(logits, row));
    EXPECT_NE(sampler.take(row, hot, draw_key(3, position)), 1);
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

// ---------------------------------------------------------------------------------------------- against
// definitions

std::vector<float> random_row(std::mt19937& random, size_t size) {
  const float spread = 0.3F + static_cast<float>(random() % 6);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> row;
  for (size_t i = 0; i < size; ++i) {
    row.push_back(random() % 3 == 0 ? static_cast<float>(static_cast<int>(random() % 9) - 4)
                                    : normal(random));
  }
  return row;
}

/// The ids that the definition leaves, by a full sort in double; `doubtful` if rounding could decide.
std::set<TokenId> left_by_definition(const std::vector<float>& row, const SamplingParams& params,
                                     bool& doubtful) {
  const double largest = *std::max_element(row.begin(), row.end());
  std::vector<std::pair<double, TokenId>> order;  // (-weight, id)
  for (size_t id = 0; id < row.size(); ++id) {
    const double weight =
        std::exp((static_cast<double>(row[id]) - largest) / static_cast<double>(params.temperature));
    doubtful |= std::abs(weight / std::max<double>(params.min_p, 1e-30) - 1) < 1e-5;
    if (weight >= std::max<double>(params.min_p, 1e-30))
      order.emplace_back(-weight, static_cast<TokenId>(id));
  }
  std::sort(order.begin(), order.end());
  if (params.top_k > 0 && order.size() > static_cast<size_t>(params.top_k)) {
    const auto k = static_cast<size_t>(params.top_k);
    doubtful |= order[k].first != order[k - 1].first && order[k].first / order[k - 1].first > 1 - 1e-5;
    order.resize(k);
  }
  double total = 0;
  for (const auto& [weight, id] : order) total -= weight;
  std::set<TokenId> left;
  double sum = 0;
  for (const auto& [weight, id] : order) {
    if (params.top_p < 1 && sum >= total * static_cast<double>(params.top_p) && !left.empty()) break;
    left.insert(id);
    sum -= weight;
    doubtful |= params.top_p < 1 && std::abs(sum / total - static_cast<double>(params.top_p)) < 1e-6;
  }
  return left;
}

TEST(Sampler, WhatIsLeftIsWhatTheDefinitionLeaves) {
  std::mt19937 random(11);
  int compared = 0;
  for (int round = 0; round < 400; ++round) {
    const std::vector<float> logits = random_row(random, 2 + random() % 3000);
    SamplingParams params;
    params.temperature = 0.2F + static_cast<float>(random() % 20) * 0.1F;
    if (random() % 2 == 0) params.top_k = 1 + static_cast<int32_t>(random() % 60);
    if (random() % 2 == 0) params.top_p = 0.05F + static_cast<float>(random() % 19) * 0.05F;
    if (random() % 3 == 0) params.min_p = static_cast<float>(random() % 30) * 0.01F;
    bool doubtful = false;
    const std::set<TokenId> wanted = left_by_definition(logits, params, doubtful);
    std::vector<float> copy = logits;
    Sampler sampler(std::vector<bool>(logits.size(), true));
    ScannedRow row;
    ASSERT_TRUE(sampler.scan(copy, row));
    const TokenId token = sampler.take(row, params, draw_key(random(), round));
    sampler.write_drawn_from(row, params);
    std::set<TokenId> left;
    for (size_t id = 0; id < copy.size(); ++id) {
      if (copy[id] == -kInf) continue;
      left.insert(static_cast<TokenId>(id));
      EXPECT_EQ(copy[id], logits[id] / params.temperature);
    }
    EXPECT_TRUE(left.count(token));
    if (doubtful) continue;
    ++compared;
    ASSERT_EQ(left, wanted) << "round " << round << ", top_k " << params.top_k << ", top_p " << params.top_p;
  }
  EXPECT_GT(compared, 250);
}

TEST(Sampler, TopKOfOneAndATinyTopPAreGreedy) {
  // So close that their weights are equal float32 numbers.
  std::vector<float> logits(50, 3.0F);
  logits[30] = std::nextafter(3.0F, 4.0F);
  SamplingParams one;
  one.temperature = 2;
  one.top_k = 1;
  SamplingParams tiny;
  tiny.temperature = 2;
  tiny.top_p = 1e-6F;
  for (int position = 0; position < 50; ++position) {
    EXPECT_EQ(sample(logits, one, 1, position), 30);
    EXPECT_EQ(sample(logits, tiny, 1, position), 30);
  }
}

TEST(Sampler, SharesFollowTheProbabilitiesOfManyIds) {
  std::mt19937 random(5);
  std::vector<float> logits = random_row(random, 200);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  constexpr int kDraws = 60000;
  std::map<TokenId, double> found = shares(logits, {}, kDraws);
  double chi_square = 0;
  int cells = 0;
  double rest = 0;
  double rest_found = 0;
  for (size_t id = 0; id < logits.size(); ++id) {
    const double wanted = std::exp(static_cast<double>(logits[id])) / sum * kDraws;
    const double count = found[static_cast<TokenId>(id)] * kDraws;
    if (wanted < 10) {
      rest += wanted;
      rest_found += count;
      continue;
    }
    chi_square += (count - wanted) * (count - wanted) / wanted;
    ++cells;
  }
  if (rest > 10) chi_square += (rest_found - rest) * (rest_found - rest) / rest;
  // The expectation is the number of cells, the standard deviation sqrt(2 * cells): five of them.
  EXPECT_LT(chi_square, cells + 5 * std::sqrt(2.0 * cells));
}

TEST(Sampler, SimilarDistributionsMostlyGiveTheSameToken) {
  // What speculation lives on: the draft's distribution beside the model's, with the same number.
  std::mt19937 random(6);
  std::normal_distribution<float> noise(0, 0.3F);
  int equal = 0;
  double wanted = 0;
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<float> model = random_row(random, 64);
    std::vector<float> draft = model;
    for (float& logit : draft) logit += noise(random);
    equal += sample(model, {}, 9, round) == sample(draft, {}, 9, round);
    double model_sum = 0;
    double draft_sum = 0;
    for (size_t i = 0; i < model.size(); ++i) {
      model_sum += std::exp(static_cast<double>(model[i]));
      draft_sum += std::exp(static_cast<double>(draft[i]));
    }
    double overlap = 0;
    for (size_t i = 0; i < model.size(); ++i) {
      overlap += std::min(std::exp(static_cast<double>(model[i])) / model_sum,
                          std::exp(static_cast<double>(draft[i])) / draft_sum);
    }
    wanted += overlap / (2 - overlap);  // the least that such a coupling reaches, see docs/sampling.md
  }
  EXPECT_GE(equal, wanted - 3 * std::sqrt(kRounds * 0.25));
}

// ----------------------------------------------------------------------------------------------------
// logprobs

TEST(Sampler, NamedIdsTakeThePlaceOfTheMostLikely) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const size_t size = 40 + random() % 3000;
    std::vector<float> logits = random_row(random, size);
    logits[5] = -kInf;
    std::vector<bool> sampleable(size, true);
    sampleable[7] = false;
    Sampler sampler(sampleable);
    ScannedRow row;
    std::vector<float> copy = logits;
    ASSERT_TRUE(sampler.scan(copy, row));
    sampler.sum_up(row);
    double sum = 0;
    for (size_t id = 0; id < size; ++id) sum += id == 7 ? 0 : std::exp(static_cast<double>(logits[id]));
    const std::vector<TokenId> ids{7, 5, static_cast<TokenId>(size - 1), 3, 9};
    Logprobs found;
    for (const TokenId token : {3, 8}) sampler.report(row, token, ids, false, found);
    ASSERT_EQ(found.top, 5);
    ASSERT_EQ(found.alternatives.size(), 10U);
    EXPECT_EQ(found.chosen[1].id, 8);
    for (size_t i = 0; i < 10; ++i) {
      const auto [id, logprob] = found.alternatives[i];
      EXPECT_EQ(std::count_if(found.alternatives.begin(), found.alternatives.end(),
                              [id = id](const TokenLogprob& other) { return other.id == id; }),
                2);
      if (i % 5 > 0) {
        EXPECT_LE(logprob, found.alternatives[i - 1].logprob);
      }
      if (id == 5 || id == 7) {
        EXPECT_EQ(logprob, -kInf);
      } else {
        EXPECT_NEAR(static_cast<double>(logprob),
                    static_cast<double>(logits[static_cast<size_t>(id)]) - std::log(sum), 4e-6);
      }
    }
  }
}

TEST(Sampler, LogprobsRanksAndAlternativesAreThoseOfTheDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 120; ++round) {
    const size_t size = 3 + random() % 4000;
    std::vector<float> logits = random_row(random, size);
    std::vector<bool> sampleable(size, true);
    for (int i = 0; i < 2; ++i) sampleable[random() % size] = false;
    if (random() % 4 == 0) logits[random() % size] = -kInf;
    Sampler sampler(sampleable);
    ScannedRow row;
    std::vector<float> copy = logits;
    for (size_t id = 0; id < size; ++id) {
      if (!sampleable[id]) copy[id] = kNan;
    }
    if (!sampler.scan(copy, row)) continue;
    sampler.sum_up(row);
    std::vector<std::pair<float, TokenId>> order;
    double sum = 0;
    for (size_t id = 0; id < size; ++id) {
      if (!sampleable[id]) continue;
      order.emplace_back(-logits[id], static_cast<TokenId>(id));
      sum += std::exp(static_cast<double>(logits[id]));
    }
    std::sort(order.begin(), order.end());
    const int32_t asked = round % 5 == 0 ? kAllLogprobs : static_cast<int32_t>(random() % 24);
    const size_t top =
        asked == kAllLogprobs ? order.size() : std::min(order.size(), static_cast<size_t>(asked));
    const size_t place = random() % order.size();
    const TokenId token = order[place].second;
    Logprobs found;
    sampler.report(row, order.front().second, asked, false, found);
    sampler.report(row, token, asked, false, found);
    ASSERT_EQ(found.top, static_cast<int64_t>(top));
    ASSERT_EQ(found.chosen.size(), 2U);
    ASSERT_EQ(found.alternatives.size(), 2 * top);
    EXPECT_EQ(found.ranks[0], 1);
    EXPECT_EQ(found.ranks[1], static_cast<int64_t>(place) + 1);
    EXPECT_EQ(found.chosen[1].id, token);
    const auto wanted = [&](TokenId id) {
      return static_cast<double>(logits[static_cast<size_t>(id)]) - std::log(sum);
    };
    const auto expect_near = [&](const TokenLogprob& entry) {
      if (std::isinf(logits[static_cast<size_t>(entry.id)])) {
        EXPECT_EQ(entry.logprob, -kInf);
      } else {
        EXPECT_NEAR(static_cast<double>(entry.logprob), wanted(entry.id), 4e-6);
      }
    };
    expect_near(found.chosen[1]);
    for (size_t i = 0; i < top; ++i) {
      ASSERT_EQ(found.alternatives[top + i].id, order[i].second) << i << " of " << top;
      expect_near(found.alternatives[top + i]);
    }
    Logprobs plain;
    sampler.report(row, token, 1, true, plain);
    EXPECT_EQ(plain.chosen[0].logprob, logits[static_cast<size_t>(token)]);
  }
}

}  // namespace
}  // namespace glint
