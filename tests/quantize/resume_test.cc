// Killed at any moment, a conversion continues and ends with the same files.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <random>

#include "quantize_support.h"
#include "support/expect_error.h"

namespace glint::quantize {
namespace {

class Resume : public ::testing::Test {
 protected:
  void SetUp() override {
    make_standin("micro", 1, CheckpointFormat::bf16, source_, 200'000);
    convert(conversion(source_, wanted_));
  }

  [[nodiscard]] QuantizeOptions options() const {
    QuantizeOptions options = conversion(source_, out_);
    options.resume = true;
    return options;
  }

  /// Converts in a child that kills itself at the `number`-th place (of that name, if given); true if it got
  /// to the end before that.
  bool killed_at(int number, std::string_view only = "") const {
    const pid_t child = ::fork();
    if (child == 0) {
      std::atomic<int> places{0};
      QuantizeHooks hooks;
      hooks.at_place = [&](std::string_view place) {
        if ((only.empty() || place == only) && ++places == number) ::kill(::getpid(), SIGKILL);
      };
      try {
        convert(options(), hooks);
        ::_exit(0);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ::_exit(1);
      }
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFEXITED(status);
  }

  TempFolder folder_;
  std::filesystem::path source_ = folder_.path() / "source";
  std::filesystem::path wanted_ = folder_.path() / "wanted";
  std::filesystem::path out_ = folder_.path() / "out";
};

TEST_F(Resume, AfterAKillAtEveryPlace) {
  int number = 1;
  for (bool finished = false; !finished; ++number) {
    SCOPED_TRACE(number);
    std::filesystem::remove_all(out_);
    std::filesystem::remove_all(staging_folder(out_));
    finished = killed_at(number);
    // Named before everything is there? Then it must be everything.
    if (std::filesystem::exists(out_)) {
      EXPECT_TRUE(std::filesystem::exists(out_ / kManifestName));
    }
    convert(options());
    expect_same_folders(out_, wanted_);
    EXPECT_FALSE(std::filesystem::exists(staging_folder(out_)));
    ASSERT_LT(number, 200);
  }
  EXPECT_GT(number, 40);  // twelve shards at three places, nine sources, three steps at the end
}

TEST_F(Resume, AfterMoreThanOneKill) {
  for (int round = 0; round < 8; ++round) {
    std::filesystem::remove_all(out_);
    int kills = 0;
    // Late enough that each run gets something done.
    while (!killed_at(12 + 2 * round)) ASSERT_LT(++kills, 100);
    EXPECT_GT(kills, 1);
    expect_same_folders(out_, wanted_);
  }
}

TEST_F(Resume, AfterKillsAtRandomTimes) {
  std::mt19937 random(1);
  int kills = 0;
  for (int round = 0; round < 12; ++round) {
    std::filesystem::remove_all(out_);
    for (bool finished = false; !finished;) {
      const pid_t child = ::fork();
      if (child == 0) {
        convert(options());
        ::_exit(0);
      }
      ::usleep(static_cast<useconds_t>(random() % 120'000));
      ::kill(child, SIGKILL);
      int status = 0;
      ::waitpid(child, &status, 0);
      finished = WIFEXITED(status);
      kills += finished ? 0 : 1;
      // A machine that is slow today needs a run that may end.
      if (!finished && random() % 4 == 0) {
        convert(options());
        finished = true;
      }
    }
    expect_same_folders(out_, wanted_);
  }
  std::printf("%d kills\n", kills);
}

TEST_F(Resume, FinishedShardsAreNotWrittenAgain) {
  ASSERT_FALSE(killed_at(4, "after a shard is in the journal"));
  std::map<std::string, std::filesystem::file_time_type> times;
  for (const auto& entry : std::filesystem::directory_iterator(staging_folder(out_))) {
    if (entry.path().extension() == ".safetensors") {
      times[entry.path().filename().string()] = std::filesystem::last_write_time(entry.path());
    }
  }
  ASSERT_GE(times.size(), 4U);
  convert(options());
  size_t kept = 0;
  for (const auto& [name, time] : times)
    kept += std::filesystem::last_write_time(out_ / name) == time ? 1 : 0;
  EXPECT_GE(kept, 4U);  // one more may have its name, but no line in the journal
  EXPECT_TRUE(manifest_of(out_).at("run").at("resumed").get<bool>());
}

TEST_F(Resume, AskedTwiceItSaysThatAllIsDone) {
  EXPECT_FALSE(convert(options()).was_complete);
  EXPECT_TRUE(convert(options()).was_complete);
}

TEST_F(Resume, RefusesAnotherPlan) {
  ASSERT_FALSE(killed_at(20));
  QuantizeOptions other = options();
  other.global_scale = GlobalScale::torch_cuda;
  expect_error([&] { convert(other); }, {"other options", "remove this folder"});
  EXPECT_TRUE(std::filesystem::exists(staging_folder(out_)));
  // A shard that is there, but cut: it is made again.
  for (const auto& entry : std::filesystem::directory_iterator(staging_folder(out_))) {
    if (entry.path().extension() == ".safetensors") std::filesystem::resize_file(entry.path(), 1000);
  }
  // The last line of the journal may be half written.
  std::ofstream(staging_folder(out_) / "quantize-journal.jsonl", std::ios::app) << R"({"shard":"model-0)";
  convert(options());
  expect_same_folders(out_, wanted_);
}

}  // namespace
}  // namespace glint::quantize
