#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/file.h"
#include "base/json.h"
#include "base/numeric.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/index.h"
#include "stored_copy.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace glint {
namespace {

constexpr const char* kOnlyShard = "model-00001-of-00001.safetensors";

/// A micro checkpoint whose single shard and config can be changed before it is opened.
class OpenTest : public testing::Test {
 protected:
  void make(CheckpointFormat format) { make_checkpoint(standin_options("micro", 1, format, folder_.path())); }

  [[nodiscard]] std::filesystem::path shard() const { return folder_.path() / kOnlyShard; }

  /// Rewrites the shard, and the index to list what is in it.
  void change(const std::function<void(StoredTensors&)>& edit) {
    StoredTensors tensors(shard());
    edit(tensors);
    tensors.save(shard());
    std::vector<std::pair<std::string, std::string>> map;
    for (const StoredCopy& tensor : tensors.tensors) map.emplace_back(tensor.spec.name, kOnlyShard);
    write("model.safetensors.index.json", checkpoint_index_text(map, 0));
  }

  void change_config(const std::function<void(Json&)>& edit) {
    Json config = Json::parse(read_file(folder_.path() / "config.json"));
    edit(config);
    write("config.json", config.dump());
  }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
  }

  void expect_refused(const std::vector<std::string>& parts) {
    expect_error([&] { (void)Checkpoint::open(folder_.path()); }, parts);
  }

  TempFolder folder_;
};

const std::string kQa = "model.layers.0.self_attn.q_a_proj.weight";
const std::string kExpert = "model.layers.4.mlp.experts.3.down_proj.";

TEST_F(OpenTest, ReadsBf16) {
  make(CheckpointFormat::bf16);
  const auto checkpoint = Checkpoint::open(folder_.path());
  StoredTensors tensors(shard());
  const Weight weight = checkpoint->matrix("model.layers.0.self_attn.q_a_proj");
  EXPECT_EQ(weight.format, WeightFormat::bf16);
  EXPECT_EQ(weight.rows, 48);
  EXPECT_EQ(weight.cols, 64);
  EXPECT_EQ(std::memcmp(weight.data, tensors.at(kQa).bytes.data(), 48 * 64 * 2), 0);
  const std::vector<float> norm = checkpoint->vector("model.norm.weight");
  ASSERT_EQ(norm.size(), 64U);
  EXPECT_EQ(norm[5],
            bf16_to_float(load_unaligned<uint16_t>(tensors.at("model.norm.weight").bytes.data() + 10)));
  const std::string bias = "model.layers.3.mlp.gate.e_score_correction_bias";
  EXPECT_EQ(checkpoint->vector(bias)[2], load_unaligned<float>(tensors.at(bias).bytes.data() + 8));
  EXPECT_EQ(checkpoint->tensor_bytes(), 1'649'632);
  EXPECT_EQ(checkpoint->file_bytes(), static_cast<int64_t>(std::filesystem::file_size(shard())));
  EXPECT_EQ(checkpoint->tensor_counts().total().tensors, 296);
  EXPECT_EQ(checkpoint->shards(), 1);
  EXPECT_EQ(checkpoint->folder(), folder_.path());
  EXPECT_THROW((void)checkpoint->matrix("model.layers.3.self_attn.indexer.wk"), Error);
  EXPECT_THROW((void)checkpoint->vector("model.none"), Error);
}

TEST_F(OpenTest, ReadsFp8WithPartialBlocks) {
  make(CheckpointFormat::fp8);
  StoredTensors tensors(shard());
  const auto checkpoint = Checkpoint::open(folder_.path());
  // 4 heads * (24 + 40) = 256 rows in two blocks of 128.
  const Weight weight = checkpoint->matrix("model.layers.1.self_attn.kv_b_proj");
  EXPECT_EQ(weight.format, WeightFormat::fp8_block);
  EXPECT_EQ(weight.rows, 256);
  EXPECT_EQ(weight.cols, 32);
  const StoredCopy& scale = tensors.at("model.layers.1.self_attn.kv_b_proj.weight_scale_inv");
  EXPECT_EQ(scale.spec.shape, (Shape{2, 1}));
  EXPECT_EQ(std::memcmp(weight.scale, scale.bytes.data(), 8), 0);
  EXPECT_EQ(checkpoint->matrix("lm_head").format, WeightFormat::bf16);
}

TEST_F(OpenTest, EveryProjectionHasItsOwnGlobalScale) {
  make(CheckpointFormat::nvfp4);
  const float gate_scale = 0.25F;
  change([&](StoredTensors& t) {
    std::memcpy(t.at("model.layers.4.mlp.experts.3.gate_proj.weight_scale_2").bytes.data(), &gate_scale, 4);
  });
  const auto checkpoint = Checkpoint::open(folder_.path());
  const Weight gate = checkpoint->matrix("model.layers.4.mlp.experts.3.gate_proj");
  const Weight up = checkpoint->matrix("model.layers.4.mlp.experts.3.up_proj");
  EXPECT_EQ(gate.format, WeightFormat::nvfp4);
  EXPECT_EQ(gate.rows, 32);
  EXPECT_EQ(gate.cols, 64);
  EXPECT_EQ(gate.global_scale, gate_scale);
  EXPECT_NE(up.global_scale, gate_scale);
  EXPECT_FALSE(gate.global_divides);
  StoredTensors tensors(shard());
  EXPECT_EQ(std::memcmp(gate.block_scale,
                        tensors.at("model.layers.4.mlp.experts.3.gate_proj.weight_scale").bytes.data(), 128),
            0);
  EXPECT_EQ(checkpoint->matrix("model.layers.8.mlp.experts.3.up_proj").format, WeightFormat::bf16)
      << "MTP layer";
}

TEST_F(OpenTest, BadGlobalScalesAreRefusedWhenUsed) {
  for (const float bad :
       {0.0F, -1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    TempFolder folder;
    make_checkpoint(standin_options("micro", 1, CheckpointFormat::nvfp4, folder.path()));
    StoredTensors tensors(folder.path() / kOnlyShard);
    std::memcpy(tensors.at(kExpert + "weight_scale_2").bytes.data(), &bad, 4);
    tensors.save(folder.path() / kOnlyShard);
    const auto checkpoint = Checkpoint::open(folder.path());
    expect_error([&] { (void)checkpoint->matrix("model.layers.4.mlp.experts.3.down_proj"); },
                 {kOnlyShard, kExpert + "weight_scale_2", "above 0"});
  }
}

TEST_F(OpenTest, ReadsCompressedTensorsNvfp4) {
  make(CheckpointFormat::nvfp4);
  change([&](StoredTensors& t) {
    for (StoredCopy& tensor : t.tensors) {
      std::string& name = tensor.spec.name;
      if (tensor.spec.dtype == Dtype::u8) name += "_packed";
      if (name.ends_with("input_scale")) name.replace(name.size() - 11, 11, "input_global_scale");
      if (name.ends_with("weight_scale_2")) {
        name.replace(name.size() - 14, 14, "weight_global_scale");
        tensor.spec.shape = {1};
      }
    }
  });
  const auto checkpoint = Checkpoint::open(folder_.path());
  const Weight weight = checkpoint->matrix("model.layers.4.mlp.experts.3.down_proj");
  EXPECT_EQ(weight.format, WeightFormat::nvfp4);
  EXPECT_TRUE(weight.global_divides);
  StoredTensors tensors(shard());
  EXPECT_EQ(weight.global_scale,
            load_unaligned<float>(tensors.at(kExpert + "weight_global_scale").bytes.data()));
  EXPECT_EQ(std::memcmp(weight.data, tensors.at(kExpert + "weight_packed").bytes.data(), 64 * 16), 0);
}

TEST_F(OpenTest, FormatsMayMix) {
  // NVFP4 experts, one FP8 and one BF16 expert matrix, an FP8 lm_head, and no input scale on one projection.
  make(CheckpointFormat::nvfp4);
  change([](StoredTensors& t) {
    const std::string up = "model.layers.4.mlp.experts.3.up_proj.";
    t.retype(up + "weight", Dtype::bf16, {32, 64});
    for (const char* const part : {"weight_scale", "weight_scale_2", "input_scale"}) t.erase(up + part);
    const std::string gate = "model.layers.4.mlp.experts.3.gate_proj.";
    t.retype(gate + "weight", Dtype::f8_e4m3, {32, 64});
    for (const char* const part : {"weight_scale", "weight_scale_2", "input_scale"}) t.erase(gate + part);
    t.add({gate + "weight_scale_inv", Dtype::f32, {1, 1}});
    t.retype("lm_head.weight", Dtype::f8_e4m3, {320, 64});
    t.add({"lm_head.weight_scale_inv", Dtype::f32, {3, 1}});
    t.erase("model.layers.5.mlp.experts.0.up_proj.input_scale");
  });
  const auto checkpoint = Checkpoint::open(folder_.path());
  EXPECT_EQ(checkpoint->matrix("model.layers.4.mlp.experts.3.up_proj").format, WeightFormat::bf16);
  EXPECT_EQ(checkpoint->matrix("model.layers.4.mlp.experts.3.gate_proj").format, WeightFormat::fp8_block);
  EXPECT_EQ(checkpoint->matrix("model.layers.4.mlp.experts.3.down_proj").format, WeightFormat::nvfp4);
  EXPECT_EQ(checkpoint->matrix("lm_head").format, WeightFormat::fp8_block);
}

TEST_F(OpenTest, ASingleFileNeedsNoIndex) {
  make(CheckpointFormat::fp8);
  std::filesystem::rename(shard(), folder_.path() / "model.safetensors");
  std::filesystem::remove(folder_.path() / "model.safetensors.index.json");
  EXPECT_EQ(Checkpoint::open(folder_.path())->tensor_counts().total().tensors, 522);
  std::filesystem::remove(folder_.path() / "model.safetensors");
  expect_refused({folder_.path().string(), "model.safetensors.index.json"});
}

TEST_F(OpenTest, ModelsWithoutMtpOrSharedExperts) {
  MakeCheckpointOptions options = standin_options("micro", 1, CheckpointFormat::fp8, folder_.path());
  Json config = Json::parse(options.config_text);
  config["num_nextn_predict_layers"] = 0;
  config["n_shared_experts"] = 0;
  config["index_topk_pattern"] = "FSFSFSFS";
  config.erase("indexer_types");
  options.config_text = config.dump();
  make_checkpoint(options);
  const auto checkpoint = Checkpoint::open(folder_.path());
  EXPECT_EQ(checkpoint->config().layers_with_mtp(), 8);
  EXPECT_NO_THROW((void)checkpoint->matrix("model.layers.2.self_attn.indexer.wk"));
  EXPECT_THROW((void)checkpoint->matrix("model.layers.1.self_attn.indexer.wk"), Error);
  // A config that knows nothing of the MTP layer meets one that has it.
  change([](StoredTensors& t) { t.add({"model.layers.8.enorm.weight", Dtype::bf16, {64}}); });
  expect_refused({kOnlyShard, "model.layers.8.enorm.weight", "unknown", "num_nextn_predict_layers = 0"});
}

TEST_F(OpenTest, RefusesWhatIsNoCheckpoint) {
  expect_error([] { (void)Checkpoint::open("/no/such/folder"); }, {"/no/such/folder", "not a folder"});
  expect_refused({"config.json", "No such file"});
  make(CheckpointFormat::bf16);
  change_config([](Json& c) { c["architectures"] = {"Glm4MoeForCausalLM"}; });
  expect_refused({"config.json", "architectures", "Glm4MoeForCausalLM", "GlmMoeDsaForCausalLM"});
}

TEST_F(OpenTest, RefusesMissingAndUnknownTensors) {
  make(CheckpointFormat::fp8);
  const std::string keep = read_file(shard());
  const auto with = [&](const std::function<void(StoredTensors&)>& edit,
                        const std::vector<std::string>& parts) {
    change(edit);
    expect_refused(parts);
    write(kOnlyShard, keep);
  };
  with([](StoredTensors& t) { t.erase("model.norm.weight"); },
       {"index.json", "model.norm.weight is missing", "BF16 [64]"});
  with([](StoredTensors& t) { t.erase(kQa); }, {"index.json", kQa + " is missing", "[48, 64]"});
  with([](StoredTensors& t) { t.erase(kQa + "_scale_inv"); },
       {"index.json", kQa + "_scale_inv is missing", "F32 [1, 1]", "F8_E4M3"});
  with([](StoredTensors& t) { t.erase("model.layers.6.self_attn.indexer.k_norm.bias"); },
       {"model.layers.6.self_attn.indexer.k_norm.bias is missing", "layer 6 is a full layer"});
  with([](StoredTensors& t) { t.erase("model.layers.8.eh_proj.weight"); },
       {"model.layers.8.eh_proj.weight is missing", "num_nextn_predict_layers = 1"});
  with(
      [](StoredTensors& t) {
        t.add({"model.layers.4.self_attn.indexer.k_norm.weight", Dtype::bf16, {32}});
      },
      {kOnlyShard, "model.layers.4.self_attn.indexer.k_norm.weight", "layer 4 is a shared layer"});
  with(
      [](StoredTensors& t) {
        t.add({"model.layers.9.enorm.weight", Dtype::bf16, {64}});
      },
      {kOnlyShard, "model.layers.9.enorm.weight", "unknown", "num_hidden_layers = 8"});
  with(
      [](StoredTensors& t) {
        t.add({"model.layers.x.enorm.weight", Dtype::bf16, {64}});
      },
      {kOnlyShard, "model.layers.x.enorm.weight", "unknown"});
  with(
      [](StoredTensors& t) {
        t.add({"vision.weight", Dtype::bf16, {64}});
      },
      {kOnlyShard, "vision.weight", "unknown"});
  with(
      [](StoredTensors& t) {
        t.add({"model.layers.0.self_attn.q_a_proj.bias", Dtype::bf16, {48}});
      },
      {kOnlyShard, "model.layers.0.self_attn.q_a_proj.bias", "BF16 [48]", "unknown"});
  with(
      [](StoredTensors& t) {
        t.add({"lm_head.weight_scale_inv", Dtype::f32, {3, 1}});
      },
      {kOnlyShard, "lm_head.weight_scale_inv", "unknown"});
  with(
      [](StoredTensors& t) {
        t.add({"model.layers.0.self_attn.o_proj.weight_scale", Dtype::f32, {1}});
      },
      {kOnlyShard, "o_proj.weight_scale", "unknown", "beside"});
}

TEST_F(OpenTest, RefusesWrongShapesAndDtypes) {
  make(CheckpointFormat::fp8);
  const std::string keep = read_file(shard());
  const auto with = [&](const std::string& name, Dtype dtype, const Shape& shape,
                        const std::vector<std::string>& parts) {
    change([&](StoredTensors& t) { t.retype(name, dtype, shape); });
    std::vector<std::string> all = parts;
    all.insert(all.end(), {kOnlyShard, name});
    expect_refused(all);
    write(kOnlyShard, keep);
  };
  with("model.norm.weight", Dtype::bf16, {65}, {"shape [65], expected [64]"});
  with("model.norm.weight", Dtype::bf16, {64, 1}, {"shape [64, 1], expected [64]"});
  with("model.norm.weight", Dtype::f32, {64}, {"dtype F32, expected BF16"});
  with("model.layers.3.mlp.gate.e_score_correction_bias", Dtype::bf16, {8}, {"dtype BF16, expected F32"});
  with("lm_head.weight", Dtype::bf16, {64, 320}, {"shape [64, 320], expected [320, 64]"});
  with("lm_head.weight", Dtype::f16, {320, 64}, {"dtype F16, expected BF16, F8_E4M3 or U8"});
  with("model.embed_tokens.weight", Dtype::f8_e4m3, {320, 64}, {"dtype F8_E4M3, expected BF16"});
  with("model.layers.8.eh_proj.weight", Dtype::bf16, {64, 64}, {"shape [64, 64], expected [64, 128]"});
  with(kQa, Dtype::f8_e4m3, {64, 48}, {"shape [64, 48], expected [48, 64]"});
  with(kQa, Dtype::f8_e5m2, {48, 64}, {"dtype F8_E5M2"});
  with("model.layers.1.self_attn.kv_b_proj.weight_scale_inv", Dtype::f32, {1, 2},
       {"shape [1, 2], expected [2, 1]"});
  with("model.layers.1.self_attn.kv_b_proj.weight_scale_inv", Dtype::bf16, {2, 1},
       {"dtype BF16, expected F32"});
  with("model.layers.1.self_attn.kv_b_proj.weight_scale_inv", Dtype::f32, {2},
       {"shape [2], expected [2, 1]"});
}

TEST_F(OpenTest, RefusesWrongNvfp4) {
  make(CheckpointFormat::nvfp4);
  const std::string keep = read_file(shard());
  const auto with = [&](const std::string& part, Dtype dtype, const Shape& shape,
                        const std::vector<std::string>& parts) {
    change([&](StoredTensors& t) { t.retype(kExpert + part, dtype, shape); });
    std::vector<std::string> all = parts;
    all.insert(all.end(), {kOnlyShard, kExpert + part});
    expect_refused(all);
    write(kOnlyShard, keep);
  };
  with("weight", Dtype::u8, {64, 32}, {"shape [64, 32], expected [64, 16]"});
  with("weight", Dtype::i8, {64, 16}, {"dtype I8"});
  with("weight_scale", Dtype::f8_e4m3, {64, 1}, {"shape [64, 1], expected [64, 2]"});
  with("weight_scale", Dtype::f8_e4m3, {2, 64}, {"shape [2, 64], expected [64, 2]"});
  with("weight_scale", Dtype::f8_e8m0, {64, 2}, {"dtype F8_E8M0, expected F8_E4M3"});
  with("weight_scale_2", Dtype::f32, {2}, {"shape [2], expected []"});
  with("weight_scale_2", Dtype::bf16, {}, {"dtype BF16, expected F32"});
  with("input_scale", Dtype::f32, {64}, {"shape [64], expected []"});
  for (const char* const part : {"weight_scale", "weight_scale_2"}) {
    change([&](StoredTensors& t) { t.erase(kExpert + part); });
    expect_refused({"index.json", kExpert + part + " is missing", "NVFP4"});
    write(kOnlyShard, keep);
  }
  // Both dialects at once.
  change([](StoredTensors& t) { t.add({kExpert + "weight_packed", Dtype::u8, {64, 16}}); });
  expect_refused({kOnlyShard, kExpert + "weight_packed", "unknown"});
}

TEST_F(OpenTest, RefusesBrokenShards) {
  MakeCheckpointOptions options = standin_options("micro", 1, CheckpointFormat::bf16, folder_.path());
  options.shard_bytes = 300'000;
  const MadeCheckpoint made = make_checkpoint(options);
  ASSERT_EQ(made.shards, 6);
  const std::string name = "model-00003-of-00006.safetensors";
  const std::string keep = read_file(folder_.path() / name);
  std::filesystem::remove(folder_.path() / name);
  expect_refused({name, "missing", "6 shards"});
  write(name, keep.substr(0, keep.size() - 1));
  expect_refused({name, "out of range", "truncated"});
  write(name, keep.substr(0, 100));
  expect_refused({name, "truncated"});
  write(name, keep + "x");
  expect_refused({name, "after the last tensor"});
  std::string large = keep;
  large[3] = '\x7F';  // a header length of 2 GB
  write(name, large);
  expect_refused({name, "header", "100000000"});
  std::string overlap = keep;
  const size_t offsets = overlap.find("\"data_offsets\":[", overlap.find("\"data_offsets\":[") + 1) + 16;
  overlap[offsets] = overlap[offsets] == '1' ? '2' : '1';
  write(name, overlap);
  expect_refused({name, "data_offsets"});
  write(name, keep);
  EXPECT_NO_THROW((void)Checkpoint::open(folder_.path()));
}

TEST_F(OpenTest, RefusesAnIndexThatLies) {
  MakeCheckpointOptions options = standin_options("micro", 1, CheckpointFormat::bf16, folder_.path());
  options.shard_bytes = 1'000'000;
  ASSERT_EQ(make_checkpoint(options).shards, 2);
  const std::string index_name = "model.safetensors.index.json";
  const Json keep = Json::parse(read_file(folder_.path() / index_name));
  const std::string first = "model-00001-of-00002.safetensors";
  const std::string second = "model-00002-of-00002.safetensors";

  Json index = keep;
  index["weight_map"]["model.norm.weight"] = first;
  write(index_name, index.dump());
  expect_refused({first, "model.norm.weight", "missing"});

  index = keep;
  index["weight_map"].erase("model.norm.weight");
  write(index_name, index.dump());
  expect_refused({second, "model.norm.weight", "unknown", index_name});

  index = keep;
  index["weight_map"]["model.extra.weight"] = first;
  write(index_name, index.dump());
  expect_refused({first, "model.extra.weight", "missing"});

  write(index_name, "{");
  expect_refused({index_name, "JSON"});
  // Without an index, two shards are not a checkpoint.
  std::filesystem::remove(folder_.path() / index_name);
  expect_refused({folder_.path().string(), index_name});
}

TEST_F(OpenTest, RefusesATensorInTwoShards) {
  make(CheckpointFormat::bf16);
  StoredTensors extra(shard());
  extra.tensors = {extra.at("model.norm.weight"), extra.at("lm_head.weight")};
  extra.save(folder_.path() / "model-2.safetensors");
  Json index = Json::parse(read_file(folder_.path() / "model.safetensors.index.json"));
  index["weight_map"]["lm_head.weight"] = "model-2.safetensors";
  write("model.safetensors.index.json", index.dump());
  expect_refused({"unknown", "model-2.safetensors"});
}

TEST_F(OpenTest, SaysWhereAViewStandsOnDisk) {
  make(CheckpointFormat::fp8);
  const auto checkpoint = Checkpoint::open(folder_.path());
  const Weight head = checkpoint->matrix("lm_head");
  const auto place = checkpoint->file_place(head.data);
  ASSERT_TRUE(place.has_value());
  ASSERT_EQ(head.format, WeightFormat::bf16);
  std::vector<std::byte> read(static_cast<size_t>(head.rows * head.cols * 2));
  InputFile(*place->file).read(place->offset, read);
  EXPECT_EQ(std::memcmp(read.data(), head.data, read.size()), 0);
  const int elsewhere = 0;
  EXPECT_FALSE(checkpoint->file_place(&elsewhere).has_value());
}

TEST_F(OpenTest, ReadAllReportsAndStops) {
  make(CheckpointFormat::fp8);
  const auto checkpoint = Checkpoint::open(folder_.path());
  int64_t last = -1;
  checkpoint->read_all([&](int64_t done, int64_t total) {
    EXPECT_GE(done, last);
    EXPECT_EQ(total, checkpoint->file_bytes());
    last = done;
    return true;
  });
  EXPECT_EQ(last, checkpoint->file_bytes());
  EXPECT_NO_THROW(checkpoint->read_all(nullptr));
  std::filesystem::resize_file(shard(), 1000);
  expect_error([&] { checkpoint->read_all(nullptr); }, {kOnlyShard, "shorter"});
  std::filesystem::remove(shard());
  expect_error([&] { checkpoint->read_all(nullptr); }, {kOnlyShard, "cannot open"});
}

}  // namespace
}  // namespace glint
