// Page files and the folder of them: every byte counts, whatever was killed or broken.
#include "cache/page_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <set>

#include "base/file.h"
#include "page_memory.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace glint::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPageBytes = 5000;  // not a multiple of the file's blocks

PageFileFormat format(const std::string& identity = "model") {
  return {kPageBytes, page_file_fingerprint(identity)};
}

void put(PageFolder& folder, int64_t value) {
  PageFileBuffer buffer(folder.format());
  const auto contents = TestMemory::contents(value, kPageBytes);
  std::copy(contents.begin(), contents.end(), buffer.page());
  ASSERT_EQ(folder.write(hash_of(value), buffer), 0);
}

PageRead get(PageFolder& folder, int64_t value) {
  PageFileBuffer buffer(folder.format());
  const PageRead result = folder.read(hash_of(value), buffer);
  if (result == PageRead::good) {
    const auto contents = TestMemory::contents(value, kPageBytes);
    EXPECT_TRUE(std::equal(contents.begin(), contents.end(), buffer.page())) << "wrong bytes passed as good";
  }
  return result;
}

fs::path file_of(const fs::path& folder, int64_t value) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().find(hex(hash_of(value))) != std::string::npos) return entry.path();
  }
  return {};
}

void overwrite(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

TEST(PageFolder, GivesBackWhatItWasGiven) {
  const TempFolder temp;
  {
    PageFolder folder(temp.path() / "deep" / "folder", format());
    for (int64_t value = 0; value < 5; ++value) put(folder, value);
    for (int64_t value = 0; value < 5; ++value) EXPECT_EQ(get(folder, value), PageRead::good);
    EXPECT_EQ(get(folder, 5), PageRead::missing);
    put(folder, 3);  // again, over the old one
    EXPECT_EQ(fs::file_size(file_of(temp.path() / "deep" / "folder", 3)), 4096U + 8192U);
  }
  PageFolder again(temp.path() / "deep" / "folder", format());
  const PageFolder::Scan scan = again.scan();
  ASSERT_EQ(scan.pages.size(), 5U);
  std::set<std::string> hashes;
  for (const StoredPage& page : scan.pages) hashes.insert(hex(page.hash));
  for (int64_t value = 0; value < 5; ++value) {
    EXPECT_TRUE(hashes.contains(hex(hash_of(value))));
    EXPECT_EQ(get(again, value), PageRead::good);
  }
}

TEST(PageFolder, NoticesAChangeOfAnyByte) {
  const TempFolder temp;
  PageFolder folder(temp.path(), format());
  put(folder, 1);
  const fs::path path = file_of(temp.path(), 1);
  const std::string whole = read_file(path);
  // Every byte of the header's fields; beginning, middle and end of its padding, the page and its padding.
  std::vector<size_t> places;
  for (size_t i = 0; i < 120; ++i) places.push_back(i);
  for (const size_t i : {2000, 4087, 4088, 4095, 4096, 4097, 7000, 9095, 9096, 9500, 12287})
    places.push_back(i);
  for (const size_t place : places) {
    for (const char bit : {'\x01', '\x80'}) {
      std::string changed = whole;
      changed[place] = static_cast<char>(changed[place] ^ bit);
      overwrite(path, changed);
      EXPECT_EQ(get(folder, 1), PageRead::damaged) << "byte " << place;
    }
  }
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, size_t{8192}, whole.size() - 1}) {
    overwrite(path, whole.substr(0, size));
    EXPECT_EQ(get(folder, 1), PageRead::damaged) << "cut to " << size;
  }
  overwrite(path, whole);
  EXPECT_EQ(get(folder, 1), PageRead::good);
}

TEST(PageFolder, TakesNoWholePageForAnother) {
  const TempFolder temp;
  PageFolder folder(temp.path(), format());
  put(folder, 1);
  put(folder, 2);
  fs::copy_file(file_of(temp.path(), 1), file_of(temp.path(), 2), fs::copy_options::overwrite_existing);
  EXPECT_EQ(get(folder, 2), PageRead::foreign) << "the page of another hash";
  const TempFolder other_temp;
  PageFolder other(other_temp.path(), format("other model"));
  put(other, 1);
  fs::copy_file(file_of(other_temp.path(), 1), file_of(temp.path(), 1), fs::copy_options::overwrite_existing);
  EXPECT_EQ(get(folder, 1), PageRead::foreign) << "the page of another model";
}

TEST(PageFolder, SortsOutWhatItFinds) {
  const TempFolder temp;
  for (const char* const model : {"other model", "model"}) {
    PageFolder folder(temp.path(), format(model));
    for (int64_t value = 0; value < 4; ++value) put(folder, value + (*model == 'o' ? 100 : 0));
  }
  fs::resize_file(file_of(temp.path(), 2), 8192);
  overwrite(temp.path() / ".partial.17", "half");
  overwrite(temp.path() / ".partial.mine", "somebody's");
  overwrite(temp.path() / "notes.txt", "somebody's");
  fs::create_directory(temp.path() / "subfolder");
  PageFolder folder(temp.path(), format());
  const PageFolder::Scan scan = folder.scan();
  EXPECT_EQ(scan.damaged, 1);
  EXPECT_EQ(scan.partial, 1);
  EXPECT_EQ(scan.foreign, 4);
  ASSERT_EQ(scan.pages.size(), 7U);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NE(scan.pages[i].fingerprint, folder.fingerprint()) << "they leave first";
  EXPECT_TRUE(file_of(temp.path(), 2).empty());
  EXPECT_FALSE(fs::exists(temp.path() / ".partial.17"));
  for (const char* const name : {".partial.mine", "notes.txt", "subfolder"}) {
    EXPECT_TRUE(fs::exists(temp.path() / name)) << name;
  }
}

TEST(PageFolder, ListsInOrderOfUse) {
  const TempFolder temp;
  const auto order = [&](PageFolder& folder) {
    std::vector<PageHash> hashes;
    for (const StoredPage& page : folder.scan().pages) hashes.push_back(page.hash);
    return hashes;
  };
  {
    PageFolder folder(temp.path(), format());
    for (int64_t value = 0; value < 4; ++value) {
      put(folder, value);
      ::usleep(20'000);  // file systems keep times in ticks
    }
    EXPECT_EQ(get(folder, 1), PageRead::good);
    // By time of writing or last reading: what a killed process leaves.
    EXPECT_EQ(order(folder), (std::vector{hash_of(0), hash_of(2), hash_of(3), hash_of(1)}));
    folder.save_order({hash_of(3), hash_of(9), hash_of(1), hash_of(0)});
  }
  PageFolder folder(temp.path(), format());
  EXPECT_EQ(order(folder), (std::vector{hash_of(3), hash_of(1), hash_of(0), hash_of(2)}));
  EXPECT_EQ(order(folder), (std::vector{hash_of(0), hash_of(2), hash_of(3), hash_of(1)}))
      << "a note serves once";
}

TEST(PageFolder, BelongsToOneProcess) {
  const TempFolder temp;
  const PageFolder first(temp.path(), format());
  expect_error([&] { PageFolder(temp.path(), format()); },
               {temp.path().string(), cat("in use by process ", ::getpid())});
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      PageFolder second(temp.path(), format("other model"));
      ::_exit(0);
    } catch (const Error&) {
      ::_exit(7);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(PageFolder, SaysWhatIsWrongWithThePlace) {
  const TempFolder temp;
  overwrite(temp.path() / "file", "");
  expect_error([&] { PageFolder(temp.path() / "file", format()); }, {"file: cannot use this folder"});
  expect_error([&] { PageFolder("/proc/none", format()); }, {"/proc/none"});
}

/// Writes pages from `value` on until it is killed, and tells each finished one through the pipe.
[[noreturn]] void write_until_killed(const fs::path& path, int pipe, int64_t value) {
  try {
    PageFolder folder(path, format());
    PageFileBuffer buffer(folder.format());
    for (;; ++value) {
      const auto contents = TestMemory::contents(value, kPageBytes);
      std::copy(contents.begin(), contents.end(), buffer.page());
      if (folder.write(hash_of(value), buffer) != 0) break;
      if (::write(pipe, &value, sizeof value) != sizeof value) break;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  ::_exit(1);
}

TEST(PageFolder, SurvivesKillNineAtAnyMoment) {
  const TempFolder temp;
  std::set<int64_t> finished;
  for (int round = 0; round < 25; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) write_until_killed(temp.path(), ends[1], round * 100'000);
    ::close(ends[1]);
    int64_t value = 0;
    // After a few finished pages, at a moment that differs from round to round.
    for (int i = 0; i <= round % 4; ++i) {
      ASSERT_EQ(::read(ends[0], &value, sizeof value), static_cast<ssize_t>(sizeof value));
      finished.insert(value);
    }
    ::usleep(static_cast<useconds_t>(round * 811 % 10'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (::read(ends[0], &value, sizeof value) == sizeof value) finished.insert(value);
    ::close(ends[0]);
    PageFolder folder(temp.path(), format());
    const PageFolder::Scan scan = folder.scan();
    EXPECT_EQ(scan.damaged, 0) << "a name was given before the data was there";
    std::set<std::string> found;
    for (const StoredPage& page : scan.pages) found.insert(hex(page.hash));
    for (const int64_t done : finished) {
      ASSERT_TRUE(found.contains(hex(hash_of(done)))) << "a finished page is lost";
    }
    EXPECT_EQ(get(folder, *finished.rbegin()), PageRead::good);
    for (const auto& entry : fs::directory_iterator(temp.path())) {
      EXPECT_FALSE(entry.path().filename().string().starts_with(".partial")) << entry.path();
    }
  }
  PageFolder folder(temp.path(), format());
  for (const int64_t done : finished) ASSERT_EQ(get(folder, done), PageRead::good);
  std::printf("25 kills, %zu finished pages, all whole\n", finished.size());
}

}  // namespace
}  // namespace glint::testing
