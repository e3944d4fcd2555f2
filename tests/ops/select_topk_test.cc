#include "ops/cpu/select_topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace glint::ops::cpu {
namespace {

// By the definition: sort all, largest first, lowest index first among equals, NaN last.
std::vector<int32_t> by_sorting(const std::vector<float>& scores, int64_t k) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const float x = scores[static_cast<size_t>(a)];
    const float y = scores[static_cast<size_t>(b)];
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
    return x > y;
  });
  order.resize(std::min(order.size(), static_cast<size_t>(k)));
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<int32_t> selected(const std::vector<float>& scores, int64_t k) {
  std::vector<int32_t> list(static_cast<size_t>(k) + 1, -7);
  const int64_t count = select_topk(scores.data(), static_cast<int64_t>(scores.size()), k, list.data());
  EXPECT_EQ(list.back(), -7) << "wrote past the list";
  list.resize(static_cast<size_t>(count));
  return list;
}

TEST(SelectTopk, EqualsSortingOnRandomScoresWithAndWithoutTies) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const size_t n = 1 + random() % 3000;
    const int64_t k = 1 + static_cast<int64_t>(random() % 600);
    const int kinds = round % 4 == 0 ? 3 : round % 4 == 1 ? 50 : 1 << 30;  // few kinds of values: heavy ties
    std::vector<float> scores(n);
    for (float& score : scores)
      score = static_cast<float>(static_cast<int>(random() % kinds) - kinds / 2) * 0.37F;
    ASSERT_EQ(selected(scores, k), by_sorting(scores, k)) << "round " << round;
  }
}

TEST(SelectTopk, HandlesAMillionScores) {
  std::mt19937 random(8);
  std::vector<float> scores(1048576);
  for (float& score : scores)
    score = std::max(0.0F, static_cast<float>(random() % 4096) - 2048.0F);  // half are zero
  EXPECT_EQ(selected(scores, 2048), by_sorting(scores, 2048));
}

TEST(SelectTopk, TakesTheLowestIndicesOfAZeroPlateauWhateverTheSign) {
  const std::vector<float> scores = {-0.0F, 0.0F, -1.0F, 0.0F, -0.0F, 2.0F};
  EXPECT_EQ(selected(scores, 3), (std::vector<int32_t>{0, 1, 5}));
}

TEST(SelectTopk, PutsNanBelowEverything) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(selected({nan, -inf, nan, 1.0F, inf}, 3), (std::vector<int32_t>{1, 3, 4}));
}

TEST(SelectTopk, TakesAllWithoutLookingWhenTheyFit) {
  std::vector<int32_t> list(3, -7);
  EXPECT_EQ(select_topk(nullptr, 3, 3, list.data()), 3);
  EXPECT_EQ(list, (std::vector<int32_t>{0, 1, 2}));
}

}  // namespace
}  // namespace glint::ops::cpu
