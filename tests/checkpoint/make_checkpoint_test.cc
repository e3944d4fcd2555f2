#include "checkpoint/make_checkpoint.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <array>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "stored_copy.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace glint {
namespace {

std::string sha256(std::string_view bytes) {
  std::array<unsigned char, 32> digest{};
  unsigned int size = 0;
  GLINT_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1);
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

/// The table holds the sums of the files that the reference generator (Python) wrote.
TEST(MakeCheckpoint, EveryShardHasTheReferencesHash) {
  const Json table =
      parse_json(read_file(std::filesystem::path(GLINT_TEST_DATA) / "checkpoint/shard_hashes.json"), "table");
  ASSERT_GE(table.size(), 18U);
  for (const Json& entry : table) {
    SCOPED_TRACE(entry.dump().substr(0, 90));
    const TempFolder folder;
    MakeCheckpointOptions options =
        standin_options(entry.at("case"), entry.at("seed"),
                        parse_format(entry.at("format").get<std::string>()), folder.path());
    options.shard_bytes = entry.at("shard_bytes");
    options.threads = 3;
    const MadeCheckpoint made = make_checkpoint(options);
    ASSERT_EQ(made.shards, entry.at("shards").get<int64_t>());
    std::string all;
    for (int64_t shard = 1; shard <= made.shards; ++shard) {
      std::array<char, 64> name{};
      std::snprintf(name.data(), name.size(), "model-%05d-of-%05d.safetensors", static_cast<int>(shard),
                    static_cast<int>(made.shards));
      const std::string sum = sha256(read_file(folder.path() / name.data()));
      all += sum;
      if (entry.contains("sha256")) {
        EXPECT_EQ(sum, entry["sha256"].at(static_cast<size_t>(shard - 1)).get<std::string>());
      }
    }
    if (entry.contains("sha256_of_all")) {
      EXPECT_EQ(sha256(all), entry["sha256_of_all"].get<std::string>());
    }
    EXPECT_EQ(sha256(read_file(folder.path() / "model.safetensors.index.json")),
              entry.at("index").get<std::string>());
    EXPECT_EQ(Checkpoint::open(folder.path())->tensor_bytes(), made.tensor_bytes);
  }
}

TEST(MakeCheckpoint, ConfigKeepsItsTextButForOneKey) {
  for (const CheckpointFormat format :
       {CheckpointFormat::bf16, CheckpointFormat::fp8, CheckpointFormat::nvfp4}) {
    const TempFolder folder;
    MakeCheckpointOptions options = standin_options("micro", 1, format, folder.path());
    const std::string source = options.config_text;
    // A quantised source: its key must be replaced, not merged.
    options.config_text.replace(options.config_text.find('{'), 1,
                                R"({"quantization_config": {"quant_method": "modelopt", "old": 1},)");
    make_checkpoint(options);
    Json written = parse_json(read_file(folder.path() / "config.json"), "config.json");
    if (format == CheckpointFormat::bf16) {
      EXPECT_FALSE(written.contains("quantization_config"));
    } else {
      EXPECT_FALSE(written.at("quantization_config").contains("old"));
      const std::string method = written["quantization_config"]["quant_method"];
      EXPECT_EQ(method, format == CheckpointFormat::fp8 ? "fp8" : "modelopt");
      written.erase("quantization_config");
    }
    EXPECT_EQ(written, Json::parse(source));
    EXPECT_EQ(std::filesystem::exists(folder.path() / "hf_quant_config.json"),
              format == CheckpointFormat::nvfp4);
  }
  const TempFolder folder;
  const MakeCheckpointOptions options = standin_options("micro", 1, CheckpointFormat::bf16, folder.path());
  make_checkpoint(options);
  EXPECT_EQ(read_file(folder.path() / "config.json"), options.config_text);
  const Json generation =
      parse_json(read_file(folder.path() / "generation_config.json"), "generation_config.json");
  EXPECT_EQ(
      generation,
      Json::parse(R"({"temperature":1.0,"top_p":0.95,"eos_token_id":[300,301,302],"pad_token_id":300})"));
}

TEST(MakeCheckpoint, SeedAndShardsDecideNothingElse) {
  const TempFolder one;
  const TempFolder two;
  MakeCheckpointOptions options = standin_options("micro", 5, CheckpointFormat::bf16, one.path());
  options.threads = 1;
  make_checkpoint(options);
  options.folder = two.path();
  options.seed = 6;
  make_checkpoint(options);
  const char* const name = "model-00001-of-00001.safetensors";
  EXPECT_NE(read_file(one.path() / name), read_file(two.path() / name));
}

TEST(MakeCheckpoint, RefusesBeforeItWrites) {
  const TempFolder folder;
  MakeCheckpointOptions options = standin_options("micro", 1, CheckpointFormat::bf16, folder.path());
  options.shard_bytes = 0;
  expect_error([&] { make_checkpoint(options); }, {"--shard-bytes", "0"});
  options.shard_bytes = 1000;
  options.config_text = "{}";
  expect_error([&] { make_checkpoint(options); }, {"micro/config.json", "model_type"});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));

  options = standin_options("micro", 1, CheckpointFormat::bf16, folder.path());
  make_checkpoint(options);
  options.format = CheckpointFormat::fp8;
  expect_error([&] { make_checkpoint(options); }, {folder.path().string(), "already holds", "--replace"});
  options.replace = true;
  make_checkpoint(options);
  EXPECT_EQ(Checkpoint::open(folder.path())->matrix("model.layers.0.self_attn.q_a_proj").format,
            WeightFormat::fp8_block);

  options.folder = folder.path() / "config.json" / "below";
  expect_error([&] { make_checkpoint(options); }, {"cannot make this folder"});
}

TEST(MakeCheckpoint, ReportsItsProgress) {
  const TempFolder folder;
  MakeCheckpointOptions options = standin_options("micro", 1, CheckpointFormat::fp8, folder.path());
  int64_t last = 0;
  int64_t total_seen = 0;
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_GE(done, last);
    last = done;
    total_seen = total;
  };
  const MadeCheckpoint made = make_checkpoint(options);
  EXPECT_EQ(last, made.tensor_bytes);
  EXPECT_EQ(total_seen, made.tensor_bytes);
}

}  // namespace
}  // namespace glint
