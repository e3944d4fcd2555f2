#include "engine/expert_load.h"

#include <gtest/gtest.h>

#include "ops/declared_ops.h"

namespace glint {
namespace {

constexpr int64_t kExperts = 4;

class Counting {
 public:
  /// One row for each expert that is named.
  void choose(int64_t layer, std::vector<int32_t> experts) {
    const auto rows = static_cast<int64_t>(experts.size());
    load_.experts_chosen(layer, ops_, {experts.data(), rows, 1});
  }
  [[nodiscard]] std::vector<double> figures() const { return load_.busiest_over_mean(); }

 private:
  ops::Arena arena_;
  ops::DeclaredOps ops_{arena_, {}};
  HostExpertLoad load_{3, kExperts};
};

TEST(ExpertLoad, IsTheBusiestOverTheMean) {
  Counting counting;
  EXPECT_EQ(counting.figures(), (std::vector<double>{0, 0, 0}));
  counting.choose(0, {0, 1, 2, 3});
  counting.choose(2, {1, 1, 1, 1, 1});
  EXPECT_EQ(counting.figures(), (std::vector<double>{1, 0, 4}));
  counting.choose(0, {3, 3});
  EXPECT_EQ(counting.figures()[0], 3 / 1.5);
  counting.choose(7, {0});  // no such layer
  EXPECT_EQ(counting.figures()[0], 2);
}

TEST(ExpertLoad, OldTokensFade) {
  Counting counting;
  counting.choose(0, std::vector<int32_t>(512 * kExperts, 2));  // halved to 1,024
  counting.choose(0, std::vector<int32_t>(512 * kExperts / 2, 1));
  // Now 1,024 of each; without fading expert 2 would lead two to one.
  EXPECT_EQ(counting.figures()[0], 2);
}

}  // namespace
}  // namespace glint
