// The tier's threads, queues and limits, on a folder that may refuse.
#include "cache/disk_tier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <map>

#include "page_memory.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace glint::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPageBytes = 5000;
constexpr int64_t kFileBytes = 4096 + 8192;
constexpr int64_t kPages = 16;

PageFileFormat file_format() {
  return {kPageBytes, page_file_fingerprint("model")};
}

/// A folder whose device can be told to refuse or to hang.
class FaultyFolder final : public PageFolder {
 public:
  struct Faults {
    std::mutex mutex;
    std::condition_variable changed;
    std::atomic<int> write_error{0};
    std::atomic<bool> read_fails{false};
    bool reads_hang = false, writes_hang = false;
    int hanging = 0;

    void set(bool Faults::*fault, bool value) {
      const std::lock_guard lock(mutex);
      this->*fault = value;
      changed.notify_all();
    }
    void wait_while(bool Faults::*fault) {
      std::unique_lock lock(mutex);
      ++hanging;
      changed.notify_all();
      changed.wait(lock, [&] { return !(this->*fault); });
      --hanging;
    }
    void await_hanging(int count) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return hanging >= count; });
    }
  };
  FaultyFolder(const fs::path& path, std::shared_ptr<Faults> faults)
      : PageFolder(path, file_format()), faults_(std::move(faults)) {}
  int write(const PageHash& hash, PageFileBuffer& buffer) override {
    faults_->wait_while(&Faults::writes_hang);
    if (faults_->write_error != 0) return faults_->write_error;
    return PageFolder::write(hash, buffer);
  }
  PageRead read(const PageHash& hash, PageFileBuffer& buffer) override {
    faults_->wait_while(&Faults::reads_hang);
    return faults_->read_fails ? PageRead::failed : PageFolder::read(hash, buffer);
  }

 private:
  std::shared_ptr<Faults> faults_;
};

class DiskTierTest : public ::testing::Test {
 protected:
  DiskTierTest() { options_.cache_pages = kPages; }

  std::unique_ptr<DiskTier> open() {
    return std::make_unique<DiskTier>(std::make_unique<FaultyFolder>(temp_.path(), faults_), memory_,
                                      options_);
  }
  /// Through page 0, one at a time.
  void store(DiskTier& tier, int64_t value, int64_t parent = -1) {
    memory_.fill(0, value);
    ASSERT_TRUE(tier.store(hash_of(value), hash_of(parent), 0));
    tier.wait_idle();
    ASSERT_EQ(events(tier), (std::map<int32_t, bool>{{0, true}}));
  }
  /// Whether the right bytes come back.
  bool load(DiskTier& tier, int64_t value) {
    memory_.clear(1);
    if (!tier.load(hash_of(value), 1)) return false;
    tier.wait_idle();
    const auto ended = events(tier);
    EXPECT_EQ(ended.size(), 1U);
    const bool ok = ended.at(1);
    EXPECT_EQ(memory_.holds(1, value), ok) << "an event that does not tell the truth";
    return ok;
  }
  std::map<int32_t, bool> events(DiskTier& tier) {
    std::vector<TierEvent> taken;
    tier.take_events(taken);
    std::map<int32_t, bool> ended;
    for (const auto& [page, ok] : taken) EXPECT_TRUE(ended.emplace(page, ok).second) << "two events";
    return ended;
  }
  [[nodiscard]] int64_t files() const {
    return std::count_if(fs::directory_iterator(temp_.path()), fs::directory_iterator(),
                         [](const auto& entry) { return entry.path().extension() == ".page"; });
  }
  /// Changes a byte in the middle of the page's file.
  void damage(int64_t value) {
    for (const auto& entry : fs::directory_iterator(temp_.path())) {
      if (entry.path().filename().string().find(hex(hash_of(value))) == std::string::npos) continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(6000);
      const char byte = static_cast<char>(file.get());
      file.seekp(6000);
      file.put(static_cast<char>(~byte));
    }
  }

  using Faults = FaultyFolder::Faults;
  TempFolder temp_;
  TestMemory memory_{kPages, kPageBytes};
  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  DiskTierOptions options_{.bytes_max = 100 * kFileBytes};
};

TEST_F(DiskTierTest, KeepsPagesOverARestart) {
  {
    const auto tier = open();
    for (int64_t value = 0; value < 10; ++value) store(*tier, value);
    EXPECT_FALSE(tier->store(hash_of(3), hash_of(2), 2)) << "it is there";
    EXPECT_TRUE(load(*tier, 7));
    EXPECT_FALSE(load(*tier, 77));
  }
  const auto tier = open();
  for (int64_t value = 0; value < 10; ++value) EXPECT_TRUE(load(*tier, value)) << value;
  const TierStats stats = tier->stats();
  EXPECT_EQ(stats.pages, 10);
  EXPECT_EQ(stats.bytes, 10 * kFileBytes);
  EXPECT_EQ(stats.loaded_bytes, static_cast<uint64_t>(10 * kFileBytes));
  EXPECT_EQ(stats.damaged + stats.foreign + stats.dropped + stats.evicted, 0U);
}

TEST_F(DiskTierTest, WritesWhatWaitsWhenItEnds) {
  {
    const auto tier = open();
    for (int32_t page = 0; page < kPages; ++page) {
      memory_.fill(page, page);
      ASSERT_TRUE(tier->store(hash_of(page), hash_of(page - 1), page));
    }
  }
  EXPECT_EQ(files(), kPages);
}

TEST_F(DiskTierTest, IgnoresCountsAndRemovesADamagedPage) {
  const auto tier = open();
  store(*tier, 1);
  store(*tier, 2);
  damage(1);
  EXPECT_FALSE(load(*tier, 1));
  EXPECT_FALSE(tier->contains(hash_of(1)));
  EXPECT_TRUE(load(*tier, 2));
  EXPECT_EQ(tier->stats().damaged, 1U);
  EXPECT_EQ(files(), 1);
  store(*tier, 1);  // it may be written anew
  EXPECT_TRUE(load(*tier, 1));
}

TEST_F(DiskTierTest, ForgetsItsOwnPagesAndThoseThatAreBeingWritten) {
  options_.writers = 3;
  options_.bytes_max = 1'000'000'000;
  std::ofstream(temp_.path() / ("0123456789abcdef-" + std::string(64, '0') + ".page")) << "another model's";
  auto tier = open();
  for (int64_t value = 0; value < 5; ++value) store(*tier, value);
  EXPECT_EQ(files(), 6);
  // Two writes hang; the second round of the same pages must outlive the removal of the first.
  faults_->set(&FaultyFolder::Faults::writes_hang, true);
  memory_.fill(2, 10);
  memory_.fill(3, 11);
  ASSERT_TRUE(tier->store(hash_of(10), hash_of(-1), 2) && tier->store(hash_of(11), hash_of(10), 3));
  faults_->await_hanging(2);
  tier->forget_all();
  for (int64_t value = 0; value < 13; ++value) EXPECT_FALSE(tier->contains(hash_of(value))) << value;
  EXPECT_EQ(events(*tier), (std::map<int32_t, bool>{{2, true}, {3, true}}));
  memory_.fill(5, 10);
  ASSERT_TRUE(tier->store(hash_of(10), hash_of(-1), 5));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(tier->stats().queued, 1) << "the third writer waits until the others have ended";
  // What waits to be written is not written any more.
  memory_.fill(4, 12);
  ASSERT_TRUE(tier->store(hash_of(12), hash_of(11), 4));
  tier->forget_all();
  EXPECT_EQ(events(*tier), (std::map<int32_t, bool>{{4, false}, {5, false}}));
  ASSERT_TRUE(tier->store(hash_of(10), hash_of(-1), 5));
  faults_->set(&FaultyFolder::Faults::writes_hang, false);
  tier->wait_idle();
  EXPECT_EQ(events(*tier), (std::map<int32_t, bool>{{5, true}}));
  EXPECT_EQ(files(), 2) << "the new one, and the one of another model";
  EXPECT_TRUE(load(*tier, 10));
  EXPECT_FALSE(tier->contains(hash_of(11)));
  tier->forget_all();
  tier.reset();
  EXPECT_EQ(files(), 1) << "nothing comes back after a restart";
}

TEST_F(DiskTierTest, KeepsToItsBytesAndGivesUpTheLeastUsed) {
  options_.bytes_max = 4 * kFileBytes + 100;
  auto tier = open();
  for (int64_t value = 0; value < 4; ++value) store(*tier, value);
  EXPECT_TRUE(tier->contains(hash_of(0)));
  tier->touch(std::vector{hash_of(0)});
  store(*tier, 4);  // 1 leaves
  store(*tier, 5);  // 2 leaves
  EXPECT_EQ(files(), 4);
  for (const int64_t value : {0, 3, 4, 5}) EXPECT_TRUE(load(*tier, value)) << value;
  for (const int64_t value : {1, 2}) EXPECT_FALSE(tier->contains(hash_of(value))) << value;
  EXPECT_EQ(tier->stats().evicted, 2U);
  EXPECT_EQ(tier->stats().bytes, 4 * kFileBytes);
  // The order of use outlives the process, and so does a smaller limit.
  tier->touch(std::vector{hash_of(3)});
  tier.reset();
  options_.bytes_max = 2 * kFileBytes;
  tier = open();
  EXPECT_EQ(files(), 2);
  EXPECT_TRUE(load(*tier, 3));
}

TEST_F(DiskTierTest, GivesUpTheEndOfAChainBeforeItsBeginning) {
  options_.bytes_max = 6 * kFileBytes;
  const auto tier = open();
  store(*tier, 100);
  for (int64_t value = 0; value < 5; ++value) store(*tier, value, value - 1);  // a chain of five
  store(*tier, 101);
  store(*tier, 102);
  store(*tier, 103);
  // 100 was the oldest; then the chain went from its end.
  for (const int64_t value : {0, 1, 2}) EXPECT_TRUE(tier->contains(hash_of(value))) << value;
  for (const int64_t value : {3, 4, 100}) EXPECT_FALSE(tier->contains(hash_of(value))) << value;
}

TEST_F(DiskTierTest, RefusesALimitBelowOnePage) {
  expect_error([&] { open_disk_tier(temp_.path(), "model", memory_, {.bytes_max = 100, .cache_pages = 1}); },
               {"--kv-disk-bytes 100", cat(kFileBytes)});
}

TEST_F(DiskTierTest, ASecondTierOnAFolderStaysOff) {
  const auto first = open_disk_tier(temp_.path(), "model", memory_, options_);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(open_disk_tier(temp_.path(), "model", memory_, options_), nullptr);
  EXPECT_EQ(open_disk_tier("/proc/none", "model", memory_, options_), nullptr);
}

TEST_F(DiskTierTest, GoesOnWithoutWritingOnAFullDevice) {
  options_.write_rest = std::chrono::milliseconds(0);
  auto tier = open();
  store(*tier, 1);
  faults_->write_error = ENOSPC;
  store(*tier, 2);  // the page's memory is free again, whatever the device says
  EXPECT_FALSE(tier->contains(hash_of(2)));
  EXPECT_TRUE(load(*tier, 1)) << "reading goes on";
  EXPECT_EQ(tier->stats().write_errors, 1U);
  EXPECT_EQ(tier->stats().bytes, kFileBytes);
  faults_->write_error = 0;
  store(*tier, 2);
  EXPECT_TRUE(load(*tier, 2)) << "writing is tried again";
  tier.reset();
  options_.write_rest = std::chrono::hours(1);
  tier = open();
  faults_->write_error = EROFS;
  store(*tier, 3);
  EXPECT_FALSE(tier->store(hash_of(4), hash_of(3), 4)) << "not at once";
  EXPECT_EQ(tier->stats().dropped, 1U);
}

TEST_F(DiskTierTest, StopsAskingADeviceThatFails) {
  options_.read_rest = std::chrono::hours(1);
  const auto tier = open();
  store(*tier, 1);
  faults_->read_fails = true;
  for (int i = 0; i < DiskTier::kReadErrorsMax; ++i) {
    EXPECT_TRUE(tier->contains(hash_of(1))) << "an error of the device is none of the page";
    EXPECT_FALSE(load(*tier, 1));
  }
  EXPECT_FALSE(tier->contains(hash_of(1)));
  EXPECT_EQ(tier->stats().read_errors, static_cast<uint64_t>(DiskTier::kReadErrorsMax));
  EXPECT_EQ(files(), 1);
}

TEST_F(DiskTierTest, AHangingDeviceHoldsNoPage) {
  options_.readers = 1;
  options_.writers = 1;
  options_.load_timeout = std::chrono::hours(1);
  const auto tier = open();
  store(*tier, 1);
  store(*tier, 2);
  faults_->set(&Faults::writes_hang, true);
  memory_.fill(5, 3);
  ASSERT_TRUE(tier->store(hash_of(3), hash_of(2), 5));
  faults_->await_hanging(1);
  EXPECT_EQ(events(*tier), (std::map<int32_t, bool>{{5, true}})) << "copied, though not written";
  memory_.fill(6, 4);
  ASSERT_TRUE(tier->store(hash_of(4), hash_of(3), 6));
  EXPECT_TRUE(tier->withdraw(6)) << "it was still in the queue";

  faults_->set(&Faults::reads_hang, true);
  memory_.clear(7);
  ASSERT_TRUE(tier->load(hash_of(1), 7));
  faults_->await_hanging(2);
  EXPECT_TRUE(tier->withdraw(7)) << "the device is asked, the page is not touched yet";
  ASSERT_TRUE(tier->load(hash_of(2), 7)) << "and can be used for something else";
  faults_->set(&Faults::reads_hang, false);
  faults_->set(&Faults::writes_hang, false);
  tier->wait_idle();
  EXPECT_EQ(events(*tier), (std::map<int32_t, bool>{{7, true}}));
  EXPECT_TRUE(memory_.holds(7, 2)) << "the withdrawn load wrote into the page";
  EXPECT_TRUE(tier->contains(hash_of(3)));
  EXPECT_FALSE(tier->contains(hash_of(4)));
  EXPECT_EQ(tier->stats().dropped, 1U);
}

TEST_F(DiskTierTest, ALoadThatTakesTooLongFails) {
  options_.load_timeout = std::chrono::milliseconds(0);
  const auto tier = open();
  store(*tier, 1);
  faults_->set(&Faults::reads_hang, true);
  ASSERT_TRUE(tier->load(hash_of(1), 3));
  faults_->await_hanging(1);
  EXPECT_EQ(events(*tier), (std::map<int32_t, bool>{{3, false}}));
  memory_.fill(3, 99);  // the page is another's now
  faults_->set(&Faults::reads_hang, false);
  tier->wait_idle();
  EXPECT_TRUE(load(*tier, 1));
  EXPECT_TRUE(memory_.holds(3, 99));
}

// Stores, loads and withdrawals of random pages at random moments; contents are checked at every load.
TEST_F(DiskTierTest, RandomUseKeepsEveryPageRight) {
  options_.bytes_max = 20 * kFileBytes;
  const auto tier = open();
  std::mt19937 random(11);
  enum class Use { none, store, load };
  std::vector<std::pair<Use, int64_t>> uses(kPages, {Use::none, 0});
  int good_loads = 0;
  int withdrawn = 0;
  for (int step = 0; step < 6000; ++step) {
    const auto page = static_cast<int32_t>(random() % kPages);
    auto& [use, used_for] = uses[static_cast<size_t>(page)];
    const int64_t value = static_cast<int64_t>(random() % 40);
    if (use == Use::none) {
      const bool stores = random() % 2 == 0;
      if (stores) memory_.fill(page, value);
      if (stores ? tier->store(hash_of(value), hash_of(value - 1), page) : tier->load(hash_of(value), page)) {
        use = stores ? Use::store : Use::load;
        used_for = value;
      }
    } else if (random() % 8 == 0 && tier->withdraw(page)) {
      use = Use::none;
      memory_.fill(page, 1000 + page);  // it is somebody else's at once
      ++withdrawn;
    }
    for (const auto& [ended, ok] : events(*tier)) {
      auto& [ended_use, ended_value] = uses[static_cast<size_t>(ended)];
      ASSERT_NE(ended_use, Use::none);
      if (ended_use == Use::load && ok) {
        ASSERT_TRUE(memory_.holds(ended, ended_value));
        ++good_loads;
      }
      ended_use = Use::none;
    }
    ASSERT_LE(tier->stats().bytes, options_.bytes_max);
    if (step % 16 == 0) tier->wait_idle();
  }
  tier->wait_idle();
  EXPECT_LE(files(), 20);
  EXPECT_GT(good_loads, 100);
  EXPECT_GT(withdrawn, 10);
  EXPECT_GT(tier->stats().evicted, 100U);
}

}  // namespace
}  // namespace glint::testing
