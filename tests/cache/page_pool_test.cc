#include "cache/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>

namespace glint {
namespace {

PageHash hash_of(int32_t value) {
  return chain_next(chain_root("test", ""), std::vector<int32_t>{value});
}

TEST(PageHash, IsSha256OverLengthsAndParts) {
  // sha256 over: 1 as 8 little-endian bytes, "a", 0 as 8 bytes; from another implementation.
  EXPECT_EQ(hex(chain_root("a", "")), "49a1af1b982d48d444434b4fdd5a935bad437b5e211cfd8c9f18b975e2cc1e31");
  EXPECT_FALSE(chain_root("ab", "c") == chain_root("a", "bc"));
  EXPECT_FALSE(chain_root("a", "") == chain_root("", "a"));
  const std::vector<int32_t> one = {1, 2};
  const std::vector<int32_t> other = {1, 3};
  EXPECT_FALSE(chain_next(chain_root("a", ""), one) == chain_next(chain_root("a", ""), other));
  EXPECT_FALSE(chain_next(chain_root("a", ""), one) == chain_next(chain_root("b", ""), one));
}

TEST(PagePool, GivesFreePagesBeforeKeptOnesAndTheOldestOfThoseFirst) {
  PagePool pool(3);
  const int32_t a = pool.take();
  const int32_t b = pool.take();
  EXPECT_TRUE(pool.publish(a, hash_of(1)));
  EXPECT_TRUE(pool.publish(b, hash_of(2)));
  pool.release(b);
  pool.release(a);
  EXPECT_EQ(pool.available(), 3);
  const int32_t c = pool.take();
  EXPECT_TRUE(c != a && c != b);
  EXPECT_EQ(pool.take(), b);
  EXPECT_FALSE(pool.contains(hash_of(2)));
  EXPECT_EQ(pool.find(hash_of(1)), a);
  EXPECT_EQ(pool.available(), 0);
}

TEST(PagePool, APublishedPageCanHaveSeveralHolders) {
  PagePool pool(2);
  const int32_t a = pool.take();
  EXPECT_TRUE(pool.publish(a, hash_of(1)));
  EXPECT_EQ(pool.find(hash_of(1)), a);
  pool.release(a);
  EXPECT_EQ(pool.held(), 1);
  pool.release(a);
  EXPECT_EQ(pool.held(), 0);
  EXPECT_EQ(pool.find(hash_of(9)), -1);
}

TEST(PagePool, ASecondPageUnderTheSameHashStaysPrivate) {
  PagePool pool(2);
  const int32_t a = pool.take();
  const int32_t b = pool.take();
  EXPECT_TRUE(pool.publish(a, hash_of(1)));
  EXPECT_FALSE(pool.publish(b, hash_of(1)));
  pool.release(b);
  EXPECT_EQ(pool.take(), b) << "it was free at once";
  EXPECT_EQ(pool.published(), 1);
}

// Against a plain model of the same rules, long enough to fill and empty the table many times.
TEST(PagePool, AgreesWithASimpleModel) {
  constexpr int64_t kPages = 23;
  PagePool pool(kPages);
  std::mt19937 random(5);
  std::map<int32_t, int> holders;        // page -> count, if held
  std::map<int, int32_t> page_of_value;  // published value -> page
  std::map<int32_t, int> value_of_page;
  std::list<int32_t> kept;  // published and not held, oldest first
  for (int step = 0; step < 200000; ++step) {
    const int value = static_cast<int>(random() % 60);
    switch (random() % 4) {
      case 0: {
        if (pool.available() == 0) break;
        const bool none_free = holders.size() + kept.size() == static_cast<size_t>(kPages);
        const int32_t page = pool.take();
        if (none_free) {
          ASSERT_EQ(page, kept.front());
          page_of_value.erase(value_of_page[page]);
          value_of_page.erase(page);
          kept.pop_front();
        }
        ASSERT_EQ(holders.count(page), 0U);
        holders[page] = 1;
        break;
      }
      case 1: {
        const auto found = page_of_value.find(value);
        const int32_t page = pool.find(hash_of(value));
        ASSERT_EQ(page, found == page_of_value.end() ? -1 : found->second);
        if (page < 0) break;
        kept.remove(page);
        ++holders[page];
        break;
      }
      case 2: {
        if (holders.empty()) break;
        auto held = std::next(holders.begin(), static_cast<int64_t>(random() % holders.size()));
        const int32_t page = held->first;
        pool.release(page);
        if (--held->second > 0) break;
        holders.erase(held);
        if (value_of_page.count(page) != 0) kept.push_back(page);
        break;
      }
      case 3: {
        if (holders.empty()) break;
        const int32_t page =
            std::next(holders.begin(), static_cast<int64_t>(random() % holders.size()))->first;
        if (value_of_page.count(page) != 0) break;
        const bool fresh = page_of_value.count(value) == 0;
        ASSERT_EQ(pool.publish(page, hash_of(value)), fresh);
        if (!fresh) break;
        page_of_value[value] = page;
        value_of_page[page] = value;
        break;
      }
    }
    ASSERT_EQ(pool.held(), static_cast<int64_t>(holders.size()));
    ASSERT_EQ(pool.published(), static_cast<int64_t>(value_of_page.size()));
    if (step % 5000 == 4999) {
      pool.forget_all();
      page_of_value.clear();
      value_of_page.clear();
      kept.clear();
    }
  }
}

}  // namespace
}  // namespace glint
