// The walks over a row of logits against plain loops in double, on every instruction set of this machine.
#include "engine/row_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace glint {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

std::vector<Isa> isas() {
  std::vector<Isa> list = {Isa::portable};
  if (best_isa() >= Isa::avx2) list.push_back(Isa::avx2);
  if (best_isa() >= Isa::avx512) list.push_back(Isa::avx512);
  return list;
}

std::vector<float> random_row(std::mt19937& random, int64_t size, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> row;
  for (int64_t i = 0; i < size; ++i) row.push_back(random() % 50 == 0 ? kNever : normal(random));
  return row;
}

constexpr int64_t kSizes[] = {1, 5, 15, 16, 17, 100, 1023, 1024, 1025, 2057, 16384, 154880};

TEST(RowScan, PeaksAreTheLargestOfEachBlock) {
  std::mt19937 random(1);
  for (const Isa isa : isas()) {
    for (const int64_t size : kSizes) {
      const std::vector<float> row = random_row(random, size, 4);
      std::vector<float> peaks(static_cast<size_t>(row_blocks(size)), 77.0F);
      ASSERT_TRUE(row_scans(isa).peaks(row.data(), size, peaks.data()));
      for (int64_t block = 0; block < row_blocks(size); ++block) {
        const auto begin = row.begin() + block * kRowBlock;
        ASSERT_EQ(peaks[static_cast<size_t>(block)],
                  *std::max_element(begin, row.begin() + std::min(size, (block + 1) * kRowBlock)));
      }
    }
  }
}

TEST(RowScan, ANanIsSeenAnywhere) {
  for (const Isa isa : isas()) {
    for (const int64_t size : {1, 16, 33, 1030}) {
      for (int64_t at = 0; at < size; at += 1 + size / 37) {
        std::vector<float> row(static_cast<size_t>(size), 1.0F);
        row[static_cast<size_t>(at)] = std::nanf("");
        std::vector<float> peaks(static_cast<size_t>(row_blocks(size)));
        EXPECT_FALSE(row_scans(isa).peaks(row.data(), size, peaks.data())) << size << " " << at;
      }
    }
  }
}

TEST(RowScan, WeightsAndTheirSumAreThoseOfTheExponential) {
  std::mt19937 random(2);
  for (const int64_t size : kSizes) {
    for (const float temperature : {1.0F, 0.05F, 2.0F}) {
      const std::vector<float> row = random_row(random, size, 5);
      const float largest = *std::max_element(row.begin(), row.end());
      if (largest == kNever) continue;
      for (const float floor : {1e-30F, 0.01F}) {
        std::vector<float> first(row.size());
        const double sum =
            row_scans(Isa::portable).weights(row.data(), size, largest, temperature, floor, first.data());
        double wanted = 0;
        for (size_t i = 0; i < row.size(); ++i) {
          const float x = (row[i] - largest) / temperature;  // rounded as the definition says
          const double exact = std::exp(static_cast<double>(x));
          if (first[i] == 0) {
            ASSERT_LT(exact, static_cast<double>(floor) * 1.000001);
            continue;
          }
          ASSERT_NEAR(static_cast<double>(first[i]) / exact, 1, 2e-7) << row[i];
          wanted += exact;
        }
        EXPECT_NEAR(sum / wanted, 1, 1e-7);
        for (const Isa isa : isas()) {
          std::vector<float> other(row.size());
          const double other_sum =
              row_scans(isa).weights(row.data(), size, largest, temperature, floor, other.data());
          ASSERT_EQ(std::memcmp(&sum, &other_sum, sizeof sum), 0);
          ASSERT_EQ(std::memcmp(first.data(), other.data(), first.size() * sizeof(float)), 0);
        }
      }
    }
  }
}

TEST(RowScan, SharesAddUpToTheSameInAnyOrder) {
  EXPECT_EQ(share_of(1), 0x1p34);
  EXPECT_EQ(share_of(0x1p-34F), 1);
  EXPECT_EQ(share_of(0x1p-36F), 0);
  EXPECT_EQ(share_of(0x3p-35F), 2);  // half to even
  std::mt19937 random(6);
  std::uniform_real_distribution<float> exponent(-40, 0);
  for (const int64_t size : kSizes) {
    std::vector<float> weights;
    for (int64_t i = 0; i < size; ++i) weights.push_back(std::exp2(exponent(random)));
    double wanted = 0;
    for (auto weight = weights.rbegin(); weight != weights.rend(); ++weight) wanted += share_of(*weight);
    for (const Isa isa : isas()) ASSERT_EQ(row_scans(isa).shares(weights.data(), size), wanted);
  }
}

TEST(RowScan, GatherFindsAllAtOrAboveTheLeast) {
  std::mt19937 random(3);
  for (const Isa isa : isas()) {
    for (const int64_t size : kSizes) {
      std::vector<float> weights;
      for (int64_t i = 0; i < size; ++i) weights.push_back(static_cast<float>(random() % 64) / 64);
      std::vector<Candidate> found(weights.size());
      const float least = size % 2 == 0 ? 0.5F : 63.0F / 64;
      const int64_t count = row_scans(isa).gather(weights.data(), size, least, found.data());
      int64_t next = 0;
      for (int64_t i = 0; i < size; ++i) {
        if (weights[static_cast<size_t>(i)] < least) continue;
        ASSERT_LT(next, count);
        ASSERT_EQ(found[static_cast<size_t>(next)].id, i);
        ASSERT_EQ(found[static_cast<size_t>(next++)].weight, weights[static_cast<size_t>(i)]);
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(RowScan, TheRaceIsWonByTheEarliestInsideTheCut) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const auto size = static_cast<int64_t>(1 + random() % 3000);
    std::vector<float> weights;
    for (int64_t i = 0; i < size; ++i) {
      weights.push_back(random() % 4 == 0 ? 0 : static_cast<float>(1 + random() % 64) / 64);
    }
    const uint64_t key = uint64_t{random()} << 32 | random();
    RaceCut cut;
    if (round % 3 == 0) cut = {0.25F, static_cast<int32_t>(random() % static_cast<uint32_t>(size))};
    const RaceState none{-1, 1e30};
    RaceState wanted = none;
    for (int32_t id = 0; id < size; ++id) {
      const float weight = weights[static_cast<size_t>(id)];
      if (weight == 0 || weight < cut.least_weight || (weight == cut.least_weight && id > cut.least_id))
        continue;
      const double time = race_time(key, id, weight);
      if (time < wanted.time) wanted = {id, time};
    }
    for (const Isa isa : isas()) {
      RaceState state = none;
      row_scans(isa).race(weights.data(), size, key, cut, state);
      ASSERT_EQ(state.id, wanted.id) << size;
      ASSERT_EQ(state.time, wanted.time);
    }
  }
}

TEST(RowScan, RaceTimesAreExponentialAndIndependent) {
  // Of the ids of one key, of one id under many keys, and of neighbours: mean, variance and covariance.
  const auto check = [](const auto& time_of) {
    constexpr int kCount = 200000;
    double sum = 0;
    double squares = 0;
    double products = 0;
    double before = 1;
    for (int i = 0; i < kCount; ++i) {
      const double time = time_of(i);
      ASSERT_GT(time, 0);
      sum += time;
      squares += time * time;
      products += (time - 1) * (before - 1);
      before = time;
    }
    // Standard deviations: 0.0022, 0.01 (of the second moment, which is 2) and 0.0022.
    EXPECT_NEAR(sum / kCount, 1, 0.01);
    EXPECT_NEAR(squares / kCount, 2, 0.045);
    EXPECT_NEAR(products / kCount, 0, 0.01);
  };
  check([](int i) { return race_time(12345, i, 1); });
  check([](int i) { return race_time(static_cast<uint64_t>(i), 17, 1); });
  check([](int i) { return race_time(static_cast<uint64_t>(i) << 32, 17, 1); });
  check([](int i) { return race_time(static_cast<uint64_t>(i / 450), i % 450, 1); });
}

}  // namespace
}  // namespace glint
