// `glint verify nano` in small: the model holds its claims, its conversions answer alike, and every damaged
// part turns the claims red that should see it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/file.h"
#include "base/json.h"
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
  options.greedy_count = 4;
  options.runner.threads = 2;
  return options;
}

std::vector<ClaimResult> measure(const VerifyOptions& options) {
  return verify_model(options, {[](const std::string&, size_t, size_t) {}, [](const ClaimResult&) {}});
}

/// The claims that fail, in the order of the report.
std::string red_claims(const VerifyOptions& options) {
  std::string red;
  for (const ClaimResult& result : measure(options)) {
    if (!result.passed) red += (red.empty() ? "" : " ") + result.name;
  }
  return red;
}

/// A copy of nano whose tensor `name` is changed: change(bytes of the tensor).
template <class Change>
fs::path damaged_copy(const TempFolder& temp, const std::string& name, const Change& change) {
  const fs::path folder = temp.path() / "nano";
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(kNano)) {
    if (entry.is_regular_file()) fs::copy_file(entry.path(), folder / entry.path().filename());
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::string all = read_file(entry.path());
    const SafetensorsTable table =
        parse_safetensors(all, static_cast<int64_t>(all.size()), entry.path().string());
    const TensorEntry* tensor = table.find(name);
    if (tensor == nullptr) continue;
    change(all.data() + table.data_begin() + tensor->begin, static_cast<size_t>(tensor->bytes()));
    std::ofstream(entry.path(), std::ios::binary) << all;
    return folder;
  }
  ADD_FAILURE() << name << " is in no shard";
  return folder;
}

using Change = void (*)(char* bytes, size_t count);

void clear_half(char* bytes, size_t count) {
  std::memset(bytes, 0, count / 2);
}

void clear_all(char* bytes, size_t count) {
  std::memset(bytes, 0, count);
}

/// The first of float32 numbers is doubled.
void double_first(char* bytes, size_t /*count*/) {
  float first;
  std::memcpy(&first, bytes, sizeof first);
  first *= 2;
  std::memcpy(bytes, &first, sizeof first);
}

/// Float32 numbers move on by one, the last to the front.
void turn(char* bytes, size_t count) {
  std::rotate(bytes, bytes + count - sizeof(float), bytes + count);
}

struct Damage {
  const char* what;
  const char* tensor;
  Change change;
  std::vector<std::string> claims;
  const char* red;
};

TEST(Verify, NanoHoldsItsClaims) {
  const auto results =
      measure(small_options(kNano, {"copy", "tool_call", "acceptance", "greedy", "logits", "drafts"}, 6));
  EXPECT_EQ(results.size(), 6U);
  for (const ClaimResult& result : results) {
    EXPECT_TRUE(result.passed) << result.name << " " << result.measured_text << " " << result.detail;
  }
}

TEST(Verify, ADamagedWeightTurnsItRed) {
  const std::vector<std::string> texts{"acceptance", "greedy", "logits", "drafts"};
  const Damage damages[] = {
      {"a dead layer",
       "model.layers.1.self_attn.o_proj.weight",
       clear_all,
       {"copy", "tool_call", "greedy", "logits"},
       "copy tool_call greedy logits"},
      {"half of a projection", "model.layers.3.self_attn.o_proj.weight", clear_half, texts, "logits"},
      {"one block's scale", "model.layers.5.mlp.experts.3.down_proj.weight_scale_inv", double_first, texts,
       "logits"},
      {"the routing bias", "model.layers.4.mlp.gate.e_score_correction_bias", turn, texts, "logits"},
      {"an indexer",
       "model.layers.6.self_attn.indexer.wq_b.weight",
       clear_all,
       {"lists", "logits"},
       "lists logits"},
      {"the MTP layer", "model.layers.8.eh_proj.weight", clear_half, texts, "acceptance drafts"},
  };
  for (const Damage& damage : damages) {
    const TempFolder temp;
    const fs::path folder = damaged_copy(temp, damage.tensor, damage.change);
    EXPECT_EQ(red_claims(small_options(folder, damage.claims, 3)), damage.red) << damage.what;
  }
}

TEST(Verify, ConversionsAnswerAlike) {
  const auto results = measure(small_options(kNano, {"forms"}, 3));
  ASSERT_EQ(results.size(), 1U);
  EXPECT_TRUE(results[0].passed) << results[0].measured_text << " " << results[0].detail;
}

}  // namespace
}  // namespace glint::bench
