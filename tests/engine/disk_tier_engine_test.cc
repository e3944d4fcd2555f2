// The engine with a disk tier: an answer is the same cold, warm, restored from disk, and after a restart.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "engine/cache_identity.h"
#include "engine_support.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace glint::testing {
namespace {

namespace fs = std::filesystem;

/// Around page boundaries: the last token itself is always computed.
constexpr int kLengths[] = {1, 63, 64, 65, 128, 129, 193};

/// No two prompts share a page.
EngineRequest request(int length) {
  EngineRequest made;
  for (int i = 0; i < length; ++i) made.prompt.push_back((i * 31 + length * 7) % 250);
  made.sampling.max_tokens = 20;  // some answers fill a page of their own
  made.sampling.temperature = length % 2 == 0 ? 0.0F : 0.8F;
  made.sampling.seed = static_cast<uint64_t>(length);
  made.sampling.ignore_eos = true;
  return made;
}

uint64_t restorable_tokens() {
  uint64_t tokens = 0;
  for (const int length : kLengths) tokens += static_cast<uint64_t>((length - 1) / 64 * 64);
  return tokens;
}

using Answers = std::vector<std::vector<TokenId>>;

Answers answers(Engine& engine, Collector& collector) {
  std::vector<uint64_t> ids;
  for (const int length : kLengths) ids.push_back(engine.submit(request(length)));
  Answers tokens;
  for (const uint64_t id : ids) tokens.push_back(collector.wait(id).tokens);
  EXPECT_TRUE(pages_come_free(engine));
  return tokens;
}

const Answers& plain_answers() {
  static const Answers tokens = [] {
    EngineOptions options = small_options();
    options.prefix_caching = false;
    Collector collector;
    const auto engine = start(collector, options);
    return answers(*engine, collector);
  }();
  return tokens;
}

class DiskTierEngine : public ::testing::TestWithParam<int64_t> {
 protected:
  DiskTierEngine() {
    options_.num_speculative_tokens = GetParam();
    options_.kv_disk_dir = disk_.path();
    options_.kv_disk_bytes = 1'000'000'000;
  }
  /// Starts an engine, has everything answered, and ends it.
  EngineStats run() {
    Collector collector;
    const auto engine = start(collector, options_);
    EXPECT_EQ(answers(*engine, collector), plain_answers());
    return engine->stats();
  }

  TempFolder disk_;
  EngineOptions options_ = small_options();
};

TEST_P(DiskTierEngine, ARestartFindsWhatWasComputed) {
  const EngineStats cold = run();
  EXPECT_EQ(cold.tier_hits_tokens, 0U);
  const EngineStats restarted = run();
  EXPECT_EQ(restarted.tier_hits_tokens, restorable_tokens());
  EXPECT_EQ(restarted.prefix_hits_tokens, 0U);
  EXPECT_EQ(restarted.tier.loaded_pages, restorable_tokens() / 64);
  EXPECT_EQ(restarted.tier.damaged + restarted.tier.foreign + restarted.tier.dropped, 0U);
  EXPECT_LT(restarted.computed_tokens, cold.computed_tokens - restorable_tokens() + 200);
}

TEST_P(DiskTierEngine, AResetForgetsTheTierIfItIsToldTo) {
  Collector collector;
  const auto engine = start(collector, options_);
  const auto restored = [&] {
    const uint64_t before = engine->stats().tier_hits_tokens;
    EXPECT_EQ(answers(*engine, collector), plain_answers());
    return engine->stats().tier_hits_tokens - before;
  };
  EXPECT_EQ(restored(), 0U);
  engine->reset_prefix_cache({});
  EXPECT_EQ(restored(), restorable_tokens());
  engine->reset_prefix_cache({.tier = true});
  EXPECT_EQ(restored(), 0U);
  engine->reset_prefix_cache({});
  EXPECT_EQ(restored(), restorable_tokens()) << "it is written anew";
}

TEST_P(DiskTierEngine, RestoresWhatMemoryHadNoRoomFor) {
  options_.kv_cache_memory_bytes = plan_engine(*Checkpoint::open(served_folder()), options_).cache_bytes / 8;
  Collector collector;
  const auto engine = start(collector, options_);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(answers(*engine, collector), plain_answers()) << "round " << round;
  }
  EXPECT_GT(engine->stats().tier_hits_tokens, 0U);
}

TEST_P(DiskTierEngine, DamagedAndTruncatedPagesAreComputedAgain) {
  run();
  int seen = 0;
  for (const auto& entry : fs::directory_iterator(disk_.path())) {
    if (entry.path().extension() != ".page" || ++seen % 2 == 0) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + seen * 13 % 2000);
    file.write("damage", 6);
  }
  const EngineStats stats = run();
  EXPECT_GT(stats.tier.damaged, 0U);
  EXPECT_LT(stats.tier_hits_tokens, restorable_tokens());
  EXPECT_EQ(run().tier_hits_tokens, restorable_tokens()) << "they were written anew";
}

TEST_P(DiskTierEngine, PagesOfAnotherFormatAreForeign) {
  run();
  options_.kv_cache_dtype = KvCacheDType::fp8;  // other pages, other answers
  Collector collector;
  const auto engine = start(collector, options_);
  answers(*engine, collector);
  EXPECT_GT(engine->stats().tier.foreign, 0U);
  EXPECT_EQ(engine->stats().tier_hits_tokens, 0U);
}

TEST_P(DiskTierEngine, PagesWithoutDraftRowsAreNotTakenForPagesWithThem) {
  run();
  options_.num_speculative_tokens = GetParam() == 0 ? 3 : 0;
  EXPECT_EQ(run().tier_hits_tokens, 0U);
}

TEST_P(DiskTierEngine, AnAbortWhileRestoringLeavesNothingBehind) {
  run();
  Collector collector;
  const auto engine = start(collector, options_);
  for (int round = 0; round < 20; ++round) {
    const uint64_t id = engine->submit(request(193));
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    engine->abort(id);
  }
  EXPECT_TRUE(pages_come_free(*engine));
  EXPECT_EQ(answers(*engine, collector), plain_answers());
}

TEST_P(DiskTierEngine, ServesWithoutAFolderThatCannotBeUsed) {
  options_.kv_disk_dir = "/proc/none";
  EXPECT_EQ(run().tier.stored_pages, 0U);
}

/// Answers everything, waits for the writes, says so and hangs.
[[noreturn]] void serve_until_killed(const EngineOptions& options, int pipe) {
  Collector collector;
  const auto engine = start(collector, options);
  const bool right = answers(*engine, collector) == plain_answers();
  uint64_t before = 0;
  for (EngineStats stats = engine->stats(); stats.tier.stored_pages > before || stats.tier.queued > 0;
       stats = engine->stats()) {
    before = stats.tier.stored_pages;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  if (::write(pipe, right ? "y" : "n", 1) != 1) ::_exit(1);
  for (;;) ::pause();
}

TEST_P(DiskTierEngine, ARestartAfterKillNineFindsWhatWasComputed) {
  plain_answers();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) serve_until_killed(options_, ends[1]);
  ::close(ends[1]);
  char said = 0;
  EXPECT_EQ(::read(ends[0], &said, 1), 1);
  EXPECT_EQ(said, 'y');
  ::close(ends[0]);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(run().tier_hits_tokens, restorable_tokens());
}

INSTANTIATE_TEST_SUITE_P(Drafts, DiskTierEngine, ::testing::Values(0, 3));

TEST(DiskTierOptions, AreCheckedBeforeAnythingIsRead) {
  const auto checkpoint = Checkpoint::open(served_folder());
  EngineOptions options = small_options();
  options.kv_disk_dir = "somewhere";
  expect_error([&] { plan_engine(*checkpoint, options); }, {"--kv-disk-dir", "--kv-disk-bytes"});
  options.kv_disk_bytes = 100;
  expect_error([&] { plan_engine(*checkpoint, options); }, {"--kv-disk-bytes: 100", "one page of 64 tokens"});
  options.kv_disk_bytes = 1'000'000;
  plan_engine(*checkpoint, options);
  options.prefix_caching = false;
  expect_error([&] { plan_engine(*checkpoint, options); }, {"--no-enable-prefix-caching"});
  options.kv_disk_dir.clear();
  expect_error([&] { plan_engine(*checkpoint, options); }, {"--kv-disk-dir", "--kv-disk-bytes"});
}

TEST(CacheIdentity, DiffersWithEverythingThatDecidesAPage) {
  const TempFolder temp;
  const fs::path folder = temp.path() / "model";
  fs::copy(served_folder(), folder, fs::copy_options::recursive);
  CacheIdentity base;
  base.folder = folder;
  base.page_bytes = 1000;
  std::vector<std::string> texts = {cache_identity_text(base)};
  EXPECT_EQ(cache_identity_text(base), texts[0]);
  const auto add = [&](CacheIdentity identity) { texts.push_back(cache_identity_text(identity)); };
  CacheIdentity changed = base;
  changed.dtype = ops::ComputeDType::float32;
  add(changed);
  changed = base;
  changed.kv_cache_dtype = KvCacheDType::fp8;
  add(changed);
  changed = base;
  changed.page_bytes = 1064;
  add(changed);
  changed = base;
  changed.isa = Isa::avx2;
  add(changed);
  changed = base;
  changed.with_mtp = true;
  add(changed);
  fs::path shard;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") shard = entry.path();
  }
  const auto time = fs::last_write_time(shard);
  {
    std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x55');
  }
  fs::last_write_time(shard, time);
  add(base);  // a weight, under the same size and time
  fs::last_write_time(shard, time + std::chrono::seconds(1));
  add(base);
  std::ofstream(folder / "config.json", std::ios::app) << " ";
  add(base);
  fs::copy_file(shard, folder / "one-more.safetensors");
  add(base);
  for (size_t i = 0; i < texts.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(texts[i], texts[j]) << i << " and " << j;
  }
  EXPECT_EQ(texts[0].find("build \n"), std::string::npos) << "the program carries no build id";
}

}  // namespace
}  // namespace glint::testing
