// `glint verify nano` in small: the model holds its claims, a damaged one does not, and its conversions
// answer alike.
#include <gtest/gtest.h>

#include <fstream>

#include "base/file.h"
#include "bench/claim_study.h"
#include "bench/verify_model.h"
#include "checkpoint/checkpoint.h"
#include "support/temp_folder.h"
#include "tensor/safetensors.h"

namespace glint::bench {
namespace {

namespace fs = std::filesystem;

const fs::path kNano = fs::path(GLINT_TEST_DATA) / "../../models/nano";

VerifyOptions small_options(const fs::path& folder, std::vector<std::string> claims, int64_t examples) {
  VerifyOptions options;
  options.folder = folder;
  options.data = kNano / "verify";
  options.claims = std::move(claims);
  options.examples_max = examples;
  options.greedy_count = 5;
  options.runner.threads = 2;
  return options;
}

std::vector<ClaimResult> measure(const VerifyOptions& options) {
  return verify_model(options, {[](const std::string&, size_t, size_t) {}, [](const ClaimResult&) {}});
}

/// A copy of nano in which half of one attention output projection is gone.
void damage_copy(const fs::path& folder) {
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(kNano)) {
    if (entry.is_regular_file()) fs::copy_file(entry.path(), folder / entry.path().filename());
  }
  const std::string name = "model.layers.3.self_attn.o_proj.weight";
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string all = read_file(entry.path());
    const SafetensorsTable table =
        parse_safetensors(all, static_cast<int64_t>(all.size()), entry.path().string());
    const TensorEntry* tensor = table.find(name);
    if (tensor == nullptr) continue;
    std::fstream out(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(table.data_begin() + tensor->begin);
    const std::string nothing(static_cast<size_t>(tensor->bytes() / 2), '\0');
    out.write(nothing.data(), static_cast<std::streamsize>(nothing.size()));
    return;
  }
  FAIL() << name << " is in no shard";
}

TEST(Verify, NanoHoldsItsClaims) {
  for (const ClaimResult& result : measure(small_options(kNano, {"copy", "tool_call", "greedy"}, 6))) {
    EXPECT_TRUE(result.passed) << result.name << " " << result.measured_text << " " << result.detail;
  }
}

TEST(Verify, ADamagedWeightTurnsItRed) {
  const TempFolder temp;
  damage_copy(temp.path() / "nano");
  const auto results = measure(small_options(temp.path() / "nano", {"copy", "tool_call", "greedy"}, 6));
  ASSERT_EQ(results.size(), 3U);
  for (const ClaimResult& result : results) {
    EXPECT_FALSE(result.passed) << result.name << " " << result.measured_text << " " << result.detail;
  }
}

TEST(Verify, ConversionsAnswerAlike) {
  const auto results = measure(small_options(kNano, {"forms"}, 2));
  ASSERT_EQ(results.size(), 1U);
  EXPECT_TRUE(results[0].passed) << results[0].measured_text << " " << results[0].detail;
}

/// The lists of a prompt no longer than index_topk hold everything, so no row is looked at; those of a longer
/// one do not.
TEST(Verify, StudyLooksAtRowsThatListsCannotHold) {
  const auto study = [](size_t tokens) {
    return study_model(kNano, {std::vector<TokenId>(tokens, 7)}, 2, best_isa(), [](size_t) {});
  };
  EXPECT_EQ(study(128).mass_rows, 0);
  const ModelStudy some = study(300);
  EXPECT_EQ(some.mass_rows, 24);
  EXPECT_EQ(some.mass.size(), 8U);
  for (const double mass : some.mass) {
    EXPECT_GT(mass, 0.05);
    EXPECT_LT(mass, 0.9999);  // the same token everywhere: the indexer has nothing to go by
  }
}

}  // namespace
}  // namespace glint::bench
