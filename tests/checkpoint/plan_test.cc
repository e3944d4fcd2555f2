#include "checkpoint/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/file.h"
#include "checkpoint/quantization_config.h"
#include "checkpoint/report.h"
#include "support/expect_error.h"

namespace glint {
namespace {

const std::filesystem::path kData = GLINT_TEST_DATA;

ModelConfig published() {
  return load_model_config(kData / "glm-5.3-config.json");
}

/// The sums that the published files have.
TEST(Plan, PublishedCountsAndBytes) {
  struct Row {
    CheckpointFormat format;
    int64_t tensors;
    int64_t bytes;
  };
  for (const Row& row : {Row{CheckpointFormat::bf16, 59'585, 1'506'659'919'872},
                         Row{CheckpointFormat::fp8, 118'629, 755'617'140'416},
                         Row{CheckpointFormat::nvfp4, 232'385, 464'795'267'072}}) {
    const TensorCounts counts = count_tensors(published(), row.format);
    EXPECT_EQ(counts.total().tensors, row.tensors) << format_name(row.format);
    EXPECT_EQ(counts.total().bytes, row.bytes) << format_name(row.format);
  }
  const TensorCounts nvfp4 = count_tensors(published(), CheckpointFormat::nvfp4);
  EXPECT_EQ(nvfp4.by_dtype.at(Dtype::u8).tensors, 57'600);
  EXPECT_EQ(nvfp4.by_dtype.at(Dtype::u8).bytes, 362'387'865'600);
  EXPECT_EQ(nvfp4.by_dtype.at(Dtype::f8_e4m3).bytes, 45'298'483'200);
  EXPECT_EQ(nvfp4.by_dtype.at(Dtype::bf16).tensors, 1'909);
  EXPECT_EQ(nvfp4.by_dtype.at(Dtype::f32).tensors, 115'276);
  const TensorCounts fp8 = count_tensors(published(), CheckpointFormat::fp8);
  EXPECT_EQ(fp8.by_dtype.at(Dtype::f8_e4m3).bytes, 751'226'191'872);
  EXPECT_EQ(fp8.by_dtype.at(Dtype::bf16).bytes, int64_t{2'103'729'152} * 2);
}

TEST(Plan, PublishedLayers) {
  std::map<int64_t, int64_t> counts;
  std::map<int64_t, int64_t> bytes;
  const ModelConfig config = published();
  for (const ModelTensor& tensor : model_tensors(config)) {
    ++counts[tensor.layer];
    bytes[tensor.layer] += stored_tensors(tensor, config, CheckpointFormat::bf16)[0].bytes();
  }
  EXPECT_EQ(counts[-1], 3);
  EXPECT_EQ(counts[0], 17);    // dense with indexer
  EXPECT_EQ(counts[3], 782);   // sparse, shared indexer
  EXPECT_EQ(counts[6], 787);   // sparse with indexer
  EXPECT_EQ(counts[78], 791);  // MTP
  EXPECT_EQ(bytes[78], 19'905'841'664);
}

TEST(Plan, StoredForms) {
  const ModelConfig config = published();
  for (const ModelTensor& tensor : model_tensors(config)) {
    const auto fp8 = stored_tensors(tensor, config, CheckpointFormat::fp8);
    if (tensor.name == "model.layers.5.self_attn.kv_a_proj_with_mqa.weight") {
      ASSERT_EQ(fp8.size(), 2U);
      EXPECT_EQ(fp8[1].name, "model.layers.5.self_attn.kv_a_proj_with_mqa.weight_scale_inv");
      EXPECT_EQ(fp8[1].shape, (Shape{5, 48}));  // the last block of rows holds 64
    }
    if (tensor.name == "model.layers.78.mlp.experts.0.down_proj.weight") {
      EXPECT_EQ(stored_tensors(tensor, config, CheckpointFormat::nvfp4).size(), 1U)
          << "MTP experts stay BF16";
      EXPECT_EQ(fp8.size(), 2U);
    }
    if (tensor.name == "model.layers.6.self_attn.indexer.weights_proj.weight") {
      EXPECT_EQ(fp8.size(), 1U);
    }
  }
}

TEST(Plan, RefusesColumnsThatNvfp4CannotHold) {
  ModelConfig config = load_model_config(kData / "goldens/micro");
  config.moe_intermediate_size = 40;
  expect_error([&] { (void)count_tensors(config, CheckpointFormat::nvfp4); },
               {"down_proj", "[64, 40]", "multiples of 16"});
  EXPECT_NO_THROW((void)count_tensors(config, CheckpointFormat::fp8));
  expect_error([] { (void)parse_format("fp4"); }, {"\"fp4\"", "bf16, fp8 or nvfp4"});
}

TEST(Plan, RefusesAPlanThatWouldEatTheMemory) {
  ModelConfig config = published();
  config.n_routed_experts = 4096;
  expect_error([&] { (void)model_tensors(config); }, {"n_routed_experts = 4096", "tensors"});
}

TEST(QuantizationConfig, PublishedLists) {
  EXPECT_EQ(fp8_modules_to_not_convert(published()).size(), 541U);
  const std::vector<std::string> ignored = nvfp4_ignored_modules(published());
  ASSERT_EQ(ignored.size(), 156U);
  EXPECT_EQ(ignored.front(), "lm_head");
  EXPECT_EQ(ignored.back(), "model.layers.78*");
  const auto has = [&](const std::string& pattern) {
    return std::find(ignored.begin(), ignored.end(), pattern) != ignored.end();
  };
  EXPECT_TRUE(has("model.layers.0*"));
  EXPECT_TRUE(has("model.layers.1.*")) << "without the dot it would match layers 10 to 19";
  EXPECT_TRUE(has("model.layers.2.*"));
  EXPECT_TRUE(has("model.layers.77.mlp.shared_experts*"));
  EXPECT_TRUE(has("model.layers.3.self_attn*"));
  EXPECT_LT(std::find(ignored.begin(), ignored.end(), "model.layers.10.mlp.shared_experts*"),
            std::find(ignored.begin(), ignored.end(), "model.layers.3.self_attn*"));
}

TEST(Report, Numbers) {
  EXPECT_EQ(grouped_digits(0), "0");
  EXPECT_EQ(grouped_digits(999), "999");
  EXPECT_EQ(grouped_digits(1000), "1,000");
  EXPECT_EQ(grouped_digits(-123456), "-123,456");
  EXPECT_EQ(grouped_digits(755617140416), "755,617,140,416");
  EXPECT_EQ(ranges_text({}), "none");
  EXPECT_EQ(ranges_text({4}), "4");
  EXPECT_EQ(ranges_text({4, 5}), "4-5");
  EXPECT_EQ(ranges_text({4, 9}), "4, 9");
  EXPECT_EQ(ranges_text({0, 1, 2, 6, 10, 14}), "0-2, 6-14 step 4");
  EXPECT_EQ(ranges_text({3, 4, 5, 7, 8, 9}), "3-5, 7-9");
  EXPECT_EQ(ranges_text({0, 1, 3}), "0-1, 3");
}

TEST(Report, PublishedModel) {
  const std::string report = config_report(published()) + layer_report(published()) +
                             tensor_report(count_tensors(published(), CheckpointFormat::fp8));
  for (const char* const part :
       {"753,329,921,024", "743,377,000,704", "21: 0-2, 6-74 step 4", "57: 3-5, 7-9", "3: 0-2", "75: 3-77",
        "118,629 tensors, 755,617,140,416 bytes", "rope_theta 8000000", "eos 154820, 154827, 154829"}) {
    EXPECT_NE(report.find(part), std::string::npos) << part << "\n" << report;
  }
}

}  // namespace
}  // namespace glint
