// Jobs that wait for something step aside, and the others go on.
#include "server/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "../support/expect_error.h"

namespace glint {
namespace {

TEST(WorkerPool, JobsAsideKeepNobodyWaiting) {
  WorkerPool pool(2, 3);
  std::promise<void> open;
  const std::shared_future<void> opened = open.get_future().share();
  std::atomic<int> aside{0}, refused{0};
  for (const bool large : {true, false, true, false}) {
    pool.submit(
        [&] {
          try {
            const auto place = WorkerPool::step_aside();
            ++aside;
            opened.wait();
          } catch (const Error& error) {
            EXPECT_EQ(error.kind(), ErrorKind::busy);
            ++refused;
          }
        },
        large);
  }
  while (aside + refused < 4) std::this_thread::yield();
  EXPECT_EQ(aside, 3);
  EXPECT_EQ(refused, 1) << "one more than there are spare threads";
  for (const bool large : {false, true}) {
    std::promise<void> done;
    pool.submit([&] { done.set_value(); }, large);
    EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  }
  open.set_value();
  pool.stop();
}

TEST(WorkerPool, NoMoreThanItsThreadsWorkAtOnce) {
  WorkerPool pool(2, 4);
  std::atomic<int> now{0}, most{0}, done{0};
  for (int i = 0; i < 40; ++i) {
    pool.submit(
        [&] {
          const int with_me = ++now;
          int before = most;
          while (before < with_me && !most.compare_exchange_weak(before, with_me)) {
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          --now;
          ++done;
        },
        false);
  }
  while (done < 40) std::this_thread::yield();
  EXPECT_EQ(most, 2);
  EXPECT_EQ(WorkerPool::step_aside(), nullptr) << "outside of a job";
}

}  // namespace
}  // namespace glint
