// verify-checkpoint finds what is wrong: each mutation of a good folder.
#include "quantize/verify.h"

#include <gtest/gtest.h>

#include <fstream>

#include "quantize_support.h"
#include "support/expect_error.h"

namespace glint::quantize {
namespace {

class Verify : public ::testing::Test {
 protected:
  void SetUp() override {
    make_standin("micro", 1, CheckpointFormat::bf16, source_, 300'000);
    convert(conversion(source_, out_));
  }

  [[nodiscard]] VerifyReport verified(bool against = false) const {
    VerifyOptions options;
    options.folder = out_;
    if (against) options.against = source_;
    options.workers = 2;
    return verify_checkpoint(options);
  }

  void expect_fault(const std::vector<std::string>& parts, bool against = false) const {
    const VerifyReport report = verified(against);
    for (const std::string& fault : report.faults) {
      const bool all = std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
        return fault.find(part) != std::string::npos;
      });
      if (all) return;
    }
    ADD_FAILURE() << "no fault with " << parts[0] << "; faults: " << testing::PrintToString(report.faults);
  }

  /// The file of the output that holds a tensor.
  [[nodiscard]] std::filesystem::path file_of(const std::string& tensor) const {
    const Json index = parse_json(read_file(out_ / "model.safetensors.index.json"), "index");
    return out_ / index.at("weight_map").at(tensor).get<std::string>();
  }
  template <class Change>
  void change_tensor(const std::string& tensor, const Change& change) const {
    const std::filesystem::path path = file_of(tensor);
    StoredTensors file(path);
    change(file.at(tensor).bytes);
    file.save(path);
  }
  template <class Change>
  void change_json(const char* name, const Change& change) const {
    OrderedJson json = parse_ordered_json(read_file(out_ / name), name);
    change(json);
    write_file_atomically(out_ / name, json.dump(2));
  }
  void forget_manifest() const { std::filesystem::remove(out_ / kManifestName); }

  TempFolder folder_;
  std::filesystem::path source_ = folder_.path() / "source";
  std::filesystem::path out_ = folder_.path() / "out";
  const std::string expert_ = "model.layers.4.mlp.experts.1.";
};

TEST_F(Verify, AGoodFolderHasNoFault) {
  const VerifyReport report = verified(true);
  EXPECT_EQ(report.faults, std::vector<std::string>{});
  EXPECT_EQ(report.tensors, 656);
  EXPECT_GE(report.files_hashed, 15);
  EXPECT_EQ(report.recoded_equal, 120);
  EXPECT_EQ(report.copied_equal, 176);
  ASSERT_EQ(report.compared.size(), 120U);
  EXPECT_GE(report.compared.front().relative_rmse, report.compared.back().relative_rmse);
  EXPECT_NEAR(report.compared.front().relative_rmse, 0.1, 0.02);
  EXPECT_NEAR(report.compared.front().cosine, 0.995, 0.003);
}

TEST_F(Verify, EveryTargetAndSourceIsGood) {
  for (const Target target : {Target::nvfp4_experts_fp8, Target::fp8_block}) {
    QuantizeOptions options = conversion(source_, folder_.path() / "other", target);
    options.global_scale = GlobalScale::torch_cuda;
    options.scale_search = ScaleSearch::mse;
    convert(options);
    const VerifyReport report = verify_checkpoint({options.out, source_, 2, {}});
    EXPECT_EQ(report.faults, std::vector<std::string>{}) << target_name(target);
    EXPECT_EQ(report.recoded_equal, static_cast<int64_t>(report.compared.size()));
    EXPECT_GT(report.recoded_equal, 150);
    const VerifyReport back = [&] {
      convert(conversion(options.out, folder_.path() / "back", Target::bf16));
      return verify_checkpoint({folder_.path() / "back", options.out, 2, {}});
    }();
    EXPECT_EQ(back.faults, std::vector<std::string>{});
    std::filesystem::remove_all(options.out);
    std::filesystem::remove_all(folder_.path() / "back");
  }
}

TEST_F(Verify, AFlippedByteAnywhere) {
  for (const char* tensor : {"model.norm.weight", "model.layers.4.mlp.experts.1.up_proj.weight",
                             "model.layers.4.mlp.experts.1.up_proj.weight_scale"}) {
    const std::filesystem::path path = file_of(tensor);
    const std::string good = read_file(path);
    change_tensor(tensor, [](std::vector<std::byte>& bytes) { bytes[bytes.size() / 2] ^= std::byte{1}; });
    // Saved by the test's writer: put the header of the converter back, so that only one byte differs.
    std::string bad = read_file(path);
    bad = good.substr(0, good.size() - (bad.size() - 8 -
                                        static_cast<size_t>(static_cast<unsigned char>(bad[0]) +
                                                            256 * static_cast<unsigned char>(bad[1]) +
                                                            65536 * static_cast<unsigned char>(bad[2])))) +
          bad.substr(8 + static_cast<size_t>(static_cast<unsigned char>(bad[0]) +
                                             256 * static_cast<unsigned char>(bad[1]) +
                                             65536 * static_cast<unsigned char>(bad[2])));
    ASSERT_EQ(bad.size(), good.size());
    write_file_atomically(path, bad);
    expect_fault({path.filename().string(), "SHA-256"});
    expect_fault({tensor}, true);
    write_file_atomically(path, good);
  }
  EXPECT_EQ(verified().faults, std::vector<std::string>{});
}

TEST_F(Verify, SwappedShards) {
  const auto a = out_ / "model-00005-of-00012.safetensors";
  const auto b = out_ / "model-00006-of-00012.safetensors";
  std::filesystem::rename(a, out_ / "x");
  std::filesystem::rename(b, a);
  std::filesystem::rename(out_ / "x", b);
  expect_fault({"model-00005-of-00012.safetensors", "SHA-256"});
  expect_fault({"is missing, which model.safetensors.index.json says is here"});
  forget_manifest();
  expect_fault({"is missing"});
  // The same tensors of another conversion: only hashes and the source tell.
  std::filesystem::remove_all(out_);
  convert(conversion(source_, out_));
  make_standin("micro", 2, CheckpointFormat::bf16, folder_.path() / "source2", 300'000);
  convert(conversion(folder_.path() / "source2", folder_.path() / "out2"));
  std::filesystem::copy_file(folder_.path() / "out2/model-00005-of-00012.safetensors", a,
                             std::filesystem::copy_options::overwrite_existing);
  expect_fault({"model-00005-of-00012.safetensors", "SHA-256"});
  expect_fault({"mlp.experts.0.down_proj.weight", "is not what coding the source gives"}, true);
}

TEST_F(Verify, MissingScale) {
  for (const char* name : {"down_proj.weight_scale", "up_proj.weight_scale_2"}) {
    const std::filesystem::path path = file_of(expert_ + name);
    const std::string good = read_file(path);
    const std::string index = read_file(out_ / "model.safetensors.index.json");
    StoredTensors file(path);
    file.erase(expert_ + name);
    file.save(path);
    change_json("model.safetensors.index.json",
                [&](OrderedJson& json) { json["weight_map"].erase(expert_ + name); });
    expect_fault({expert_ + name, "is missing"});
    write_file_atomically(path, good);
    write_file_atomically(out_ / "model.safetensors.index.json", index);
  }
  forget_manifest();
  StoredTensors file(file_of(expert_ + "up_proj.input_scale"));
  file.erase(expert_ + "up_proj.input_scale");
  file.save(file_of(expert_ + "up_proj.weight"));
  change_json("model.safetensors.index.json",
              [&](OrderedJson& json) { json["weight_map"].erase(expert_ + "up_proj.input_scale"); });
  expect_fault({"up_proj.weight", "input_scale"});
}

TEST_F(Verify, IllegalScales) {
  forget_manifest();
  for (const int byte : {0x7F, 0xFF, 0x00, 0x80, 0xB8}) {
    change_tensor(expert_ + "down_proj.weight_scale", [&](auto& bytes) { bytes[3] = std::byte(byte); });
    expect_fault({expert_ + "down_proj.weight_scale", "zero, negative or NaN", "element 3"});
  }
  std::filesystem::remove_all(out_);
  convert(conversion(source_, out_));
  forget_manifest();
  change_tensor(expert_ + "down_proj.weight_scale", [](auto& bytes) {
    std::replace(bytes.begin(), bytes.end(), std::byte{0x7E}, std::byte{0x7D});
  });
  expect_fault({expert_ + "down_proj.weight_scale", "448"});
  for (const float bad : {0.0F, -1.0F, INFINITY, NAN}) {
    change_tensor(expert_ + "gate_proj.weight_scale_2",
                  [&](auto& bytes) { std::memcpy(bytes.data(), &bad, 4); });
    expect_fault({expert_ + "gate_proj.weight_scale_2", "above 0"});
  }
  const float other = 1e-4F;
  change_tensor(expert_ + "gate_proj.weight_scale_2",
                [&](auto& bytes) { std::memcpy(bytes.data(), &other, 4); });
  expect_fault({"gate and up must share it"});
}

TEST_F(Verify, WrongConfigs) {
  const std::string config = read_file(out_ / "config.json");
  forget_manifest();
  change_json("config.json", [](OrderedJson& json) { json["num_hidden_layers"] = 7; });
  EXPECT_FALSE(verified().faults.empty());
  write_file_atomically(out_ / "config.json", config);
  change_json("config.json", [](OrderedJson& json) { json.erase("quantization_config"); });
  expect_fault({"no quantization_config", "120 modules", "NVFP4"});
  write_file_atomically(out_ / "config.json", config);
  change_json("config.json",
              [](OrderedJson& json) { json["quantization_config"]["ignore"].push_back("model.layers.5.*"); });
  expect_fault({"model.layers.5.mlp.experts.0.gate_proj", "rules out"});
  expect_fault({"exclude_modules is not"});
  write_file_atomically(out_ / "config.json", config);
  change_json("config.json", [](OrderedJson& json) {
    json["quantization_config"] = {{"quant_method", "fp8"},
                                   {"weight_block_size", OrderedJson::array({128, 128})},
                                   {"modules_to_not_convert", OrderedJson::array()}};
  });
  expect_fault({"quant_method is fp8", "120 modules"});
  expect_fault({"q_a_proj", "expected FP8 blocks"});
  write_file_atomically(out_ / "config.json", config);
  std::filesystem::remove(out_ / "hf_quant_config.json");
  expect_fault({"hf_quant_config.json is missing"});
}

TEST_F(Verify, FilesAndManifest) {
  std::filesystem::remove(out_ / "generation_config.json");
  expect_fault({"generation_config.json", "is missing"});
  std::filesystem::copy_file(out_ / "model-00001-of-00012.safetensors", out_ / "extra.safetensors");
  expect_fault({"extra.safetensors", "is not in"});
  write_file_atomically(out_ / kManifestName, "{}");
  expect_fault({kManifestName, "cannot be read"});
  forget_manifest();
  EXPECT_EQ(verified().warnings.size(), 1U);
  expect_error([] { verify_checkpoint({"/nowhere", "", 1, {}}); }, {"/nowhere", "not a folder"});
}

}  // namespace
}  // namespace glint::quantize
