// Plans, above all that of the published model: its numbers are known from its repositories.
#include "quantize/plan.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "quantize/converter.h"
#include "quantize/quant_config.h"
#include "quantize_support.h"
#include "sparse_source.h"
#include "support/expect_error.h"

namespace glint::quantize {
namespace {

const std::filesystem::path kRealConfig = std::filesystem::path(GLINT_TEST_DATA) / "glm-5.3-config.json";

/// 282 sparse shards, made once.
const std::filesystem::path& real_source() {
  static const TempFolder kFolder;
  static const bool kMade = [] {
    EXPECT_EQ(write_sparse_source(kRealConfig, kFolder.path() / "source"), 282U);
    return true;
  }();
  (void)kMade;
  static const std::filesystem::path kPath = kFolder.path() / "source";
  return kPath;
}

QuantizeOptions real_conversion() {
  QuantizeOptions options = conversion(real_source(), real_source().parent_path() / "out");
  options.workers = 16;
  return options;
}

TEST(Plan, ThePublishedModel) {
  const QuantizeOptions options = real_conversion();
  const Plan plan = make_plan(options);
  EXPECT_EQ(plan.source_counts.total().tensors, 59'585);
  EXPECT_EQ(plan.source_counts.total().bytes, 1'506'659'919'872);
  EXPECT_EQ(plan.output_counts.total().tensors, 232'385);
  EXPECT_EQ(plan.output_counts.total().bytes, 464'795'267'072);
  EXPECT_EQ(plan.quantized, 57'600);
  EXPECT_EQ(plan.expert_bundles, 19'200);
  EXPECT_EQ(plan.shards.size(), 163U);
  EXPECT_EQ(plan.shards.front().file, "model-00001-of-00163.safetensors");
  EXPECT_EQ(plan.reread_bytes, 0);
  EXPECT_GE(plan.split_pairs, 80);
  EXPECT_LE(plan.split_pairs, 95);
  EXPECT_LT(plan.memory_bytes(), int64_t{4} << 30);
  EXPECT_EQ(excluded_modules(plan, options).size(), 156U);
  const Json hf = parse_json(hf_quant_config_text(plan, options), "hf_quant_config.json");
  EXPECT_EQ(hf.at("quantization").at("exclude_modules").size(), 156U);
  EXPECT_EQ(hf.at("quantization").at("kv_cache_quant_algo"), "FP8");
  for (const OutputShard& shard : plan.shards) EXPECT_EQ(shard.head.size() % 4096, 0U);
  std::printf("%s", plan_text(plan, options).c_str());
}

TEST(Plan, EveryOutputByteHasOnePlace) {
  const Plan plan = make_plan(real_conversion());
  std::vector<char> met(plan.outputs.size(), 0);
  for (uint32_t number = 0; number < plan.shards.size(); ++number) {
    const OutputShard& shard = plan.shards[number];
    auto place = static_cast<int64_t>(shard.head.size());
    for (const uint32_t output : shard.outputs) {
      ASSERT_EQ(plan.outputs[output].place, place);
      ASSERT_EQ(plan.outputs[output].shard, number);
      ASSERT_EQ(met[output]++, 0);
      place += plan.outputs[output].spec.bytes();
    }
    ASSERT_EQ(place, shard.bytes);
  }
  EXPECT_EQ(std::count(met.begin(), met.end(), 1), static_cast<std::ptrdiff_t>(plan.outputs.size()));
  // Every weight is met once on the way through the source.
  std::map<uint32_t, int> jobs;
  for (const Lane& lane : plan.lanes) {
    for (const LaneStep& step : lane.steps) ++jobs[step.job];
  }
  EXPECT_EQ(jobs.size(), plan.jobs.size());
}

/// Peak memory of this process does not grow with the model: two shards of the real size, two workers,
/// nothing kept. (bench/results has a run over twelve shards.)
TEST(Plan, TwoRealShardsInBoundedMemory) {
  QuantizeOptions options = real_conversion();
  options.workers = 2;
  const Plan plan = make_plan(options);
  Converter converter(options, plan, nullptr, {{}, 2, {}, {}});
  converter.run();
  EXPECT_GE(converter.bytes_read(), int64_t{3} << 30);
  EXPECT_LE(converter.peak_buffer_bytes(), plan.memory_bytes());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("buffers %.2f GB of planned %.2f GB, peak RSS %.2f GB\n",
              static_cast<double>(converter.peak_buffer_bytes()) / 1e9,
              static_cast<double>(plan.memory_bytes()) / 1e9, static_cast<double>(usage.ru_maxrss) / 1e6);
  EXPECT_LT(usage.ru_maxrss, 4 << 20);
}

TEST(Plan, ExcludedModulesStay) {
  const TempFolder folder;
  make_standin("micro", 1, CheckpointFormat::bf16, folder.path() / "bf16");
  QuantizeOptions options = conversion(folder.path() / "bf16", folder.path() / "out");
  options.exclude = {"model.layers.3.mlp.experts*", "model.layers.4.mlp.experts.7.down_proj"};
  convert(options);
  const auto source = stored_tensors_of(folder.path() / "bf16");
  int64_t kept = 0;
  for (const auto& [name, tensor] : stored_tensors_of(folder.path() / "out")) {
    const bool excluded = name.starts_with("model.layers.3.mlp.experts") ||
                          name.starts_with("model.layers.4.mlp.experts.7.down_proj");
    if (!excluded) continue;
    ++kept;
    EXPECT_EQ(tensor, source.at(name)) << name;
  }
  EXPECT_EQ(kept, 25);
  const Json hf = parse_json(read_file(folder.path() / "out/hf_quant_config.json"), "hf");
  const auto list = hf.at("quantization").at("exclude_modules").get<std::vector<std::string>>();
  EXPECT_EQ(std::vector<std::string>(list.end() - 2, list.end()), options.exclude);
  options.out = folder.path() / "split";
  options.exclude = {"*.experts.2.gate_proj"};
  expect_error([&] { convert(options); }, {"--exclude splits", "gate_proj", "up_proj"});
}

TEST(Plan, KvCacheHintNone) {
  const TempFolder folder;
  make_standin("micro", 1, CheckpointFormat::bf16, folder.path() / "bf16");
  QuantizeOptions options = conversion(folder.path() / "bf16", folder.path() / "out");
  options.kv_cache_hint = KvCacheHint::none;
  convert(options);
  const Json hf = parse_json(read_file(folder.path() / "out/hf_quant_config.json"), "hf");
  EXPECT_TRUE(hf.at("quantization").at("kv_cache_quant_algo").is_null());
  const Json config = parse_json(read_file(folder.path() / "out/config.json"), "config");
  EXPECT_FALSE(config.at("quantization_config").contains("kv_cache_scheme"));
}

/// Every byte of the source's config.json is in the output's, but for the one key.
TEST(Plan, TheConfigKeepsItsText) {
  const TempFolder folder;
  make_standin("micro", 1, CheckpointFormat::bf16, folder.path() / "bf16");
  convert(conversion(folder.path() / "bf16", folder.path() / "out"));
  const std::string source = read_file(folder.path() / "bf16/config.json");
  const std::string out = read_file(folder.path() / "out/config.json");
  const size_t kept = source.rfind('\n', source.rfind('}') - 1);
  ASSERT_NE(kept, std::string::npos);
  EXPECT_EQ(out.substr(0, source.find_last_not_of(" \n}") + 1),
            source.substr(0, source.find_last_not_of(" \n}") + 1));
  for (const char* name : {"tokenizer.json", "generation_config.json"}) {
    if (std::filesystem::exists(folder.path() / "bf16" / name)) {
      EXPECT_EQ(read_file(folder.path() / "out" / name), read_file(folder.path() / "bf16" / name)) << name;
    }
  }
}

}  // namespace
}  // namespace glint::quantize
