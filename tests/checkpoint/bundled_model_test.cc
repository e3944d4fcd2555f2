// Bundled models: which folder a bare name means.
#include "checkpoint/bundled_model.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace glint::testing {
namespace {

namespace fs = std::filesystem;

void touch(const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "{}";
}

/// Sets GLINT_MODELS_DIR for a test's time.
struct ModelsDir {
  explicit ModelsDir(const fs::path& folder) { setenv("GLINT_MODELS_DIR", folder.c_str(), 1); }
  ~ModelsDir() { unsetenv("GLINT_MODELS_DIR"); }
  ModelsDir(const ModelsDir&) = delete;
  ModelsDir& operator=(const ModelsDir&) = delete;
};

TEST(BundledModel, InstalledProgramLooksInShareFirst) {
  const TempFolder temp;
  const fs::path root = temp.path();
  EXPECT_EQ(bundled_model_folders(root / "usr/bin/glint"),
            std::vector<fs::path>{root / "usr/share/glint/models"});
}

TEST(BundledModel, ProgramOfATreeFindsTheTreesModels) {
  const TempFolder temp;
  const fs::path root = temp.path();
  touch(root / "tree/CMakeLists.txt");
  touch(root / "tree/models/nano/config.json");
  touch(root / "tree/build/models/x");  // no CMakeLists.txt beside it: not a source tree
  const auto folders = bundled_model_folders(root / "tree/build/apps/glint");
  ASSERT_EQ(folders.size(), 2U);
  EXPECT_EQ(folders[1], root / "tree/models");
}

TEST(BundledModel, EnvironmentReplacesTheSearch) {
  const TempFolder temp;
  touch(temp.path() / "small/config.json");
  const ModelsDir set(temp.path());
  EXPECT_EQ(find_bundled_model("small"), temp.path() / "small");
  EXPECT_EQ(find_bundled_model("other"), std::nullopt);
  for (const char* name : {"", "..", ".", "a/b", "./small", "../small"})
    EXPECT_EQ(find_bundled_model(name), std::nullopt) << name;
}

TEST(BundledModel, FolderOfThatNameWins) {
  const TempFolder temp;
  touch(temp.path() / "bundled/nano/config.json");
  fs::create_directories(temp.path() / "here/nano");
  const ModelsDir set(temp.path() / "bundled");
  const fs::path before = fs::current_path();
  fs::current_path(temp.path() / "here");
  EXPECT_EQ(folder_or_bundled_model("nano"), "nano");
  fs::current_path(temp.path());
  EXPECT_EQ(folder_or_bundled_model("nano"), temp.path() / "bundled/nano");
  fs::current_path(before);
}

TEST(BundledModel, NothingFoundNamesThePlaces) {
  const TempFolder temp;
  const ModelsDir set(temp.path());
  expect_error([] { folder_or_bundled_model("nano"); },
               {"nano: no such folder, nor one in " + temp.path().string()});
  expect_error([] { folder_or_bundled_model("/no/such"); }, {"/no/such: no such folder"});
}

TEST(BundledModel, NanoOfThisTreeIsFound) {
  const auto folder = find_bundled_model("nano");
  ASSERT_TRUE(folder);
  EXPECT_TRUE(fs::equivalent(*folder, fs::path(GLINT_TEST_DATA) / "../../models/nano"));
}

}  // namespace
}  // namespace glint::testing
