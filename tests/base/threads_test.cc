#include "base/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <vector>

namespace glint {
namespace {

TEST(ThreadPool, RunsEveryItemOnceWithAnyThreadCount) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(round));
      pool.run(round, [&](int64_t item, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, threads);
        seen[static_cast<size_t>(item)].fetch_add(1);
      });
      for (auto& count : seen) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPool, HandsTheFirstExceptionToTheCallerAndGoesOn) {
  ThreadPool pool(3);
  std::atomic<int> done{0};
  EXPECT_THROW(pool.run(50,
                        [&](int64_t item, int) {
                          if (item % 7 == 3) throw std::runtime_error("seven");
                          done.fetch_add(1);
                        }),
               std::runtime_error);
  EXPECT_EQ(done.load(), 43);
  done = 0;
  pool.run(50, [&](int64_t, int) { done.fetch_add(1); });
  EXPECT_EQ(done.load(), 50);
}

}  // namespace
}  // namespace glint
