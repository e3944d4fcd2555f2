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

/// The data without the long prompts, which are most of the work.
class Data {
 public:
  Data() {
    for (const char* name : {"greedy.jsonl", "reference.jsonl"})
      fs::copy_file(kNano / "verify" / name, temp_.path() / name);
    std::ifstream in(kNano / "verify/claims.jsonl");
    std::ofstream out(temp_.path() / "claims.jsonl");
    for (std::string line; std::getline(in, line);) {
      if (line.find("\"lookup") == std::string::npos) out << line << "\n";
    }
  }
  [[nodiscard]] const fs::path& folder() const { return temp_.path(); }

 private:
  TempFolder temp_;
};

VerifyOptions small_options(const fs::path& folder, const Data& data, std::vector<std::string> claims) {
  VerifyOptions options;
  options.folder = folder;
  options.data = data.folder();
  options.claims = std::move(claims);
  options.examples_max = 2;
  options.greedy_count = 2;
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
  const Data data;
  const auto results = measure(
      small_options(kNano, data, {"copy", "tool_call", "acceptance", "lists", "greedy", "logits", "drafts"}));
  EXPECT_EQ(results.size(), 7U);
  for (const ClaimResult& result : results) {
    EXPECT_TRUE(result.passed) << result.name << " " << result.measured_text << " " << result.detail;
  }
}

// What a model can do survives much: with half of a projection gone, or another routing bias, texts mostly
// stay what they were. The logits do not.
TEST(Verify, ADamagedWeightTurnsItRed) {
  const Data data;
  const std::vector<std::string> texts{"greedy", "logits", "drafts"};
  const Damage damages[] = {
      {"a dead layer",
       "model.layers.0.mlp.down_proj.weight",
       clear_all,
       {"json", "greedy", "logits"},
       "json greedy logits"},
      {"half of a projection", "model.layers.3.self_attn.o_proj.weight", clear_half, texts, "logits"},
      {"one block's scale", "model.layers.5.mlp.experts.3.down_proj.weight_scale_inv", double_first, texts,
       "logits"},
      {"the routing bias", "model.layers.4.mlp.gate.e_score_correction_bias", turn, texts, "logits"},
      {"an indexer",
       "model.layers.6.self_attn.indexer.wq_b.weight",
       clear_all,
       {"lists", "logits"},
       "lists logits"},
      {"the MTP layer", "model.layers.8.eh_proj.weight", clear_all, texts, "drafts"},
  };
  for (const Damage& damage : damages) {
    const TempFolder temp;
    const fs::path folder = damaged_copy(temp, damage.tensor, damage.change);
    EXPECT_EQ(red_claims(small_options(folder, data, damage.claims)), damage.red) << damage.what;
  }
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

TEST(Verify, ConversionsAnswerAlike) {
  const Data data;
  VerifyOptions options = small_options(kNano, data, {"forms"});
  options.full = true;
  const auto results = measure(options);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_TRUE(results[0].passed) << results[0].measured_text << " " << results[0].detail;
  EXPECT_NE(results[0].detail.find("to the same 10 of 10"), std::string::npos) << results[0].detail;
}

}  // namespace
}  // namespace glint::bench
