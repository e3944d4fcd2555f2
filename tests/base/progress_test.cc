#include "base/progress.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(Progress, OneLineSaysHowFarAndHowFast) {
  EXPECT_EQ(progress_text("Loading", 500'000'000, 2'000'000'000, 2.0, false),
            "Loading   25 %  0.50 of 2.00 GB, 0.25 GB/s, 6 s left");
  EXPECT_EQ(progress_text("Loading", 2'000'000'000, 2'000'000'000, 4.0, false),
            "Loading  100 %  2.00 of 2.00 GB, 0.50 GB/s, 4.0 s");
  EXPECT_EQ(progress_text("Loading", 1'500'000, 3'000'000, 0.1, false),
            "Loading   50 %  1.50 of 3.00 MB, 0.01 GB/s, 0 s left");
  EXPECT_EQ(progress_text("Loading", 1, 2, 0.0, true),
            "Loading  [###############               ]   50 %  0.00 of 0.00 MB, 0.00 GB/s");
}

TEST(Progress, OddNumbersDoNoHarm) {
  EXPECT_NE(progress_text("x", 0, 0, 0, true).find("100 %"), std::string::npos);
  EXPECT_NE(progress_text("x", 5, 4, 1, true).find("100 %"), std::string::npos);
  EXPECT_NE(progress_text("x", -5, 4, 1, true).find("0 %"), std::string::npos);
}

}  // namespace
}  // namespace glint
