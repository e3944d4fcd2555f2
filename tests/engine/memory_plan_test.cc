#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "engine/cpu_device.h"
#include "engine/cpu_executor.h"
#include "engine/flags.h"
#include "engine/plan_report.h"
#include "engine_support.h"
#include "support/expect_error.h"

namespace glint::testing {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

const ModelConfig& published() {
  static const ModelConfig config =
      load_model_config(std::filesystem::path(GLINT_TEST_DATA) / "glm-5.3-config.json");
  return config;
}

PlanRequest gpu_request(const char* device, CheckpointFormat format, int64_t tensor_parallel) {
  PlanRequest request;
  request.format = format;
  request.device = parse_device_memory(device);
  request.layout.tensor_parallel = tensor_parallel;
  request.engine.kv_cache_dtype = KvCacheDType::fp8;
  request.engine.max_num_seqs = 1024;
  request.engine.max_num_batched_tokens = 8192;
  return request;
}

/// 8 x H200 with the MTP layer, as the recipe starts it.
PlanRequest h200(int64_t drafts = 5) {
  PlanRequest request = gpu_request("8xH200", CheckpointFormat::fp8, 8);
  request.engine.num_speculative_tokens = drafts;
  return request;
}

/// The card's seven stages.
PlanRequest seven(bool with_mtp) {
  PlanRequest request = gpu_request("7x96GB", CheckpointFormat::nvfp4, 1);
  request.pipeline_parallel = 7;
  request.partition = {10, 12, 12, 12, 12, 12, 8};
  request.engine.kv_cache_dtype = KvCacheDType::bfloat16;
  request.engine.max_num_seqs = 32;
  request.engine.num_speculative_tokens = with_mtp ? 5 : 0;
  return request;
}

int64_t per_token(const PlanRequest& request) {
  const MemoryPlan plan = plan_memory(published(), request);
  return rank_bytes_per_token(plan, plan.stages.front());
}

TEST(MemoryPlan, PublishedBytesPerToken) {
  EXPECT_EQ(per_token(h200(0)), 53'940);
  EXPECT_EQ(per_token(h200(5)), 54'728);
  PlanRequest request = h200(0);
  request.engine.kv_cache_dtype = KvCacheDType::bfloat16;
  EXPECT_EQ(per_token(request), 92'628);
  request = h200(0);
  const std::pair<int64_t, int64_t> striped[] = {{2, 28'356}, {4, 15'564}, {8, 9'168}};
  for (const auto& [ranks, bytes] : striped) {
    request.layout.context_parallel = ranks;
    EXPECT_EQ(per_token(request), bytes);
  }
  request.layout.stripe_index_keys = true;
  EXPECT_EQ(per_token(request), 6'742);
}

TEST(MemoryPlan, PublishedStagesOfSeven) {
  // Layers 10 to 21 and so on hold 3 indexers each, layers 0 to 9 five (0, 1, 2, 6 and no 10: four), 70 to 77
  // two.
  const std::array<int64_t, 7> fp8 = {7'088, 8'268, 8'268, 8'268, 8'268, 8'268, 5'512};
  const std::array<int64_t, 7> bf16 = {12'048, 14'220, 14'220, 14'220, 14'220, 14'220, 9'480};
  const std::array<double, 7> weights = {42.1, 65.4, 65.4, 65.4, 65.4, 65.4, 45.4};
  const MemoryPlan plan = plan_memory(published(), seven(false));
  PlanRequest request = seven(false);
  request.engine.kv_cache_dtype = KvCacheDType::fp8;
  const MemoryPlan quantised = plan_memory(published(), request);
  ASSERT_EQ(plan.stages.size(), 7U);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(rank_bytes_per_token(plan, plan.stages[i]), bf16[i]);
    EXPECT_EQ(rank_bytes_per_token(quantised, quantised.stages[i]), fp8[i]);
    EXPECT_NEAR(static_cast<double>(sum_of(plan.stages[i].weights)) / kGiB, weights[i], 0.06) << i;
  }
  const MemoryPlan mtp = plan_memory(published(), seven(true));
  EXPECT_EQ(mtp.stages.back().speculation.at(0).bytes, 19'905'841'664) << "the MTP layer in BF16, 18.5 GiB";
  EXPECT_EQ(mtp.stages.back().speculation.at(1).bytes, int64_t{154'880} * 6144 * 2);
  EXPECT_TRUE(mtp.stages.front().speculation.empty());
  // Without a partition the planner finds this one.
  request = seven(true);
  request.partition.clear();
  EXPECT_EQ(plan_memory(published(), request).partition, seven(true).partition);
  request = seven(false);
  request.partition.clear();
  EXPECT_EQ(plan_memory(published(), request).partition, seven(false).partition);
}

TEST(MemoryPlan, OneMillionTokensFitTheCardsSeven) {
  PlanRequest request = seven(false);
  request.engine.max_model_len = 1'048'576;
  request.engine.max_num_batched_tokens = 12'288;
  request.engine.mem_fraction_static = 0.90;
  const MemoryPlan plan = plan_memory(published(), request);
  // A middle stage: 0.9 of 97,887 MiB less its weights, 14,220 bytes a token.
  const double room = 0.9 * 97'887 * 1048576.0 - static_cast<double>(sum_of(plan.stages[1].weights));
  EXPECT_NEAR(static_cast<double>(plan.tokens()), room / 14'220, 128);
  EXPECT_GE(plan.tokens(), 1'048'576);
  EXPECT_LT(plan.tokens(), 2 * 1'048'576);
}

TEST(MemoryPlan, EightH200) {
  const MemoryPlan plan = plan_memory(published(), h200());
  const StagePlan& stage = plan.stages.front();
  const double card = 143'771 * 1048576.0;
  // 97.7 GB of weights, about 5 GB beside them, about 48 GB for the cache.
  const auto weights = static_cast<double>(sum_of(stage.weights) + sum_of(stage.speculation));
  const auto beside = static_cast<double>(sum_of(stage.fixed) + stage.step.peak_bytes);
  EXPECT_NEAR(weights / 1e9, 97.7, 0.1);
  EXPECT_NEAR(beside / 1e9, 5, 1);
  EXPECT_EQ(stage.budget_bytes, static_cast<int64_t>(card) - static_cast<int64_t>(weights + beside));
  const double budget = card - weights - beside;
  EXPECT_NEAR(budget / 1e9, 48, 1);
  // 656 bytes in 79 layers and 132 in 22.
  EXPECT_NEAR(static_cast<double>(plan.tokens_by_striping[0]), budget / 54'728, 64);
  EXPECT_NEAR(static_cast<double>(plan.tokens_by_striping[1]), budget * 8 / (656 * 79 + 8 * 132 * 22),
              8 * 64);
  EXPECT_NEAR(static_cast<double>(plan.tokens_by_striping[2]), budget * 8 / 54'728, 8 * 64);
  // The published 877 k, 5.1 M and 7.0 M are for 48 GB.
  EXPECT_NEAR(static_cast<double>(plan.tokens_by_striping[0]) * 48e9 / budget, 877e3, 500);
  EXPECT_NEAR(static_cast<double>(plan.tokens_by_striping[1]) * 48e9 / budget, 5.1e6, 5e4);
  EXPECT_NEAR(static_cast<double>(plan.tokens_by_striping[2]) * 48e9 / budget, 7.0e6, 5e4);
  EXPECT_EQ(plan.tokens_by_striping[0], plan.tokens());
  EXPECT_EQ(plan.max_model_len, plan.tokens()) << "auto: all that fits, below the config's 1,048,576";
  EXPECT_GE(stage.free_bytes, 0);
  EXPECT_LT(stage.free_bytes, stage.page.total());
}

TEST(MemoryPlan, AMillionTokensOnH200NeedAStripedCache) {
  PlanRequest request = h200();
  request.engine.max_model_len = 1'048'576;
  expect_error(
      [&] { (void)plan_memory(published(), request); },
      {"To serve at least one request with the models's max seq len (1048576), (53.45 GiB KV cache is "
       "needed, which is larger than the available KV cache memory (",
       "the estimated maximum model length is", "Try increasing gpu_memory_utilization or decreasing"});
  request.layout.context_parallel = 8;
  const MemoryPlan striped = plan_memory(published(), request);
  EXPECT_GE(striped.tokens(), 4 * int64_t{1'048'576});
  const StagePlan& stage = striped.stages.front();
  // One page in eight of the latent rows, every page of the index keys.
  EXPECT_EQ(stage.cache[0].bytes, striped.pages / 8 * 64 * 656 * 78);
  EXPECT_EQ(stage.cache[1].bytes, striped.pages * 64 * 132 * 21);
  EXPECT_EQ(stage.cache[2].bytes, striped.pages / 8 * 64 * 656);
  EXPECT_EQ(stage.cache[3].bytes, striped.pages * 64 * 132);
}

TEST(MemoryPlan, EightH20EqualEightH200AndB200HoldAMillionReplicated) {
  PlanRequest request = h200();
  request.device = parse_device_memory("8xH20");
  EXPECT_EQ(plan_memory(published(), request).tokens(), plan_memory(published(), h200()).tokens());
  request.device = parse_device_memory("8x180GB");
  request.engine.max_model_len = 1'048'576;
  request.engine.max_num_seqs = 32;
  const MemoryPlan plan = plan_memory(published(), request);
  EXPECT_EQ(plan.max_model_len, 1'048'576);
  EXPECT_GE(plan.concurrency(), 1.0);
  EXPECT_LT(plan.concurrency(), 2.0) << "one report saw one to two of them";
}

/// One BF16 device that holds everything: its weights by hand.
TEST(MemoryPlan, SharesMeanWhatTheirNamesSay) {
  PlanRequest request = gpu_request("1x2000GB", CheckpointFormat::bf16, 1);
  request.engine.max_model_len = 131'072;
  const int64_t weights =
      2 * int64_t{743'377'000'704} + 4 * 75 * 256;  // without MTP, and the routers' biases
  const auto budget = [&] { return plan_memory(published(), request).stages.front().budget_bytes; };
  const MemoryPlan plain = plan_memory(published(), request);
  const int64_t beside = sum_of(plain.stages.front().fixed) + plain.stages.front().step.peak_bytes;
  EXPECT_EQ(sum_of(plain.stages.front().weights), weights);
  EXPECT_EQ(budget(), 2'000'000'000'000 - weights - beside);
  request.engine.gpu_memory_utilization = 0.75;
  EXPECT_NEAR(static_cast<double>(budget()), 1.5e12 - static_cast<double>(weights + beside), 1);
  request.engine.gpu_memory_utilization.reset();
  request.engine.mem_fraction_static = 0.75;
  EXPECT_NEAR(static_cast<double>(budget()), 1.5e12 - static_cast<double>(weights), 1);
  request.engine.kv_cache_memory_bytes = 20'000'000'000;
  EXPECT_EQ(budget(), 20'000'000'000) << "bytes win over a share";
  EXPECT_EQ(plan_memory(published(), request).pages, 20'000'000'000 / (64 * 53'940));
  request.engine.max_total_tokens = 131'100;
  EXPECT_EQ(plan_memory(published(), request).tokens(), 131'072);
  request.engine.kv_cache_memory_bytes = 0;
  request.engine.mem_fraction_static = 0.74;
  expect_error([&] { (void)plan_memory(published(), request); },
               {"No available memory for the cache blocks"});
  request.engine.mem_fraction_static = 0.9999;
  request.engine.max_total_tokens = 0;
  expect_error([&] { (void)plan_memory(published(), request); },
               {"of step memory", "--mem-fraction-static 0.9999"});
  request.engine.gpu_memory_utilization = 0.5;
  expect_error([&] { (void)plan_memory(published(), request); },
               {"--gpu-memory-utilization", "--mem-fraction-static", "give one of them"});
  request.engine.mem_fraction_static.reset();
  for (const double share : {0.0, -1.0, 1.01, std::nan("")}) {
    request.engine.gpu_memory_utilization = share;
    expect_error([&] { (void)plan_memory(published(), request); }, {"argument --gpu-memory-utilization"});
  }
}

TEST(MemoryPlan, RefusesWhatNoDeviceCanDo) {
  PlanRequest request = h200();
  request.pipeline_parallel = 2;
  expect_error([&] { (void)plan_memory(published(), request); }, {"world size (16", "number of devices (8)"});
  request = h200();
  request.layout.tensor_parallel = 7;
  expect_error([&] { (void)plan_memory(published(), request); },
               {"Total number of attention heads (64) must be divisible by tensor parallel size (7)"});
  request = seven(false);
  request.partition = {10, 12, 12, 12, 12, 13, 8};
  expect_error([&] { (void)plan_memory(published(), request); }, {"sum(partitions)=79"});
  request.partition = {11, 12, 12, 12, 12, 11, 8};
  const MemoryPlan crossing = plan_memory(published(), request);
  ASSERT_EQ(crossing.notes.size(), 1U);
  EXPECT_NE(crossing.notes[0].find("stages begin on layers 11, 23, 35, 47, 59"), std::string::npos);
  EXPECT_NE(crossing.notes[0].find("8192 bytes a token"), std::string::npos);
  EXPECT_NE(crossing.notes[0].find("10,12,12,12,12,12,8"), std::string::npos);
  request.strict_boundaries = true;
  expect_error([&] { (void)plan_memory(published(), request); }, {"--pp-strict-index-boundaries"});
  request = h200();
  request.engine.indexer_scratch_bytes = 1000;
  expect_error([&] { (void)plan_memory(published(), request); }, {"--indexer-scratch-bytes", "4194304"});
  request.engine.indexer_scratch_bytes = int64_t{64} << 20;
  EXPECT_EQ(plan_memory(published(), request).stages[0].step.scratch_of("indexer") <= int64_t{64} << 20,
            true);
}

TEST(MemoryPlan, RefusesAShareOfMemoryThatOthersHold) {
  PlanRequest request = h200();
  request.device.free_bytes = int64_t{100} << 30;
  request.engine.gpu_memory_utilization = 0.92;
  expect_error(
      [&] { (void)plan_memory(published(), request); },
      {"Free memory on device (100.00/140.40 GiB) on startup is less than desired GPU memory utilization "
       "(0.92, 129.17 GiB)"});
}

TEST(MemoryPlan, TheIndexerNeverTakesMoreThanItsBudget) {
  for (const int64_t budget : {int64_t{8} << 20, int64_t{64} << 20, int64_t{300} << 20}) {
    PlanRequest request = cpu_request(CheckpointFormat::fp8, {});
    request.device.total_bytes = request.device.free_bytes = int64_t{1} << 41;
    request.engine.threads = 2;
    request.engine.max_model_len = 1'048'576;
    request.engine.kv_cache_memory_bytes = int64_t{100} << 30;
    request.engine.indexer_scratch_bytes = budget;
    const int64_t scratch = plan_memory(published(), request).stages[0].step.scratch_of("indexer");
    EXPECT_LE(scratch, budget);
    EXPECT_GT(scratch, budget / 2);
  }
}

/// The plan is made from config.json; the device then runs the largest step that it allows.
TEST(MemoryPlan, TheLargestStepTakesExactlyThePlan) {
  const auto checkpoint = Checkpoint::open(served_folder());
  EngineOptions options = small_options();
  options.max_num_seqs = 4;
  const MemoryPlan plan =
      plan_memory(load_model_config(served_folder()), cpu_request(CheckpointFormat::fp8, options));
  EXPECT_EQ(stored_format(*checkpoint), CheckpointFormat::fp8);
  DeviceOptions device = step_options(options, plan.max_model_len, true);
  device.pages = plan.pages;
  device.step_bytes = plan.stages[0].step.peak_bytes;
  const auto model = std::make_shared<const Model>(bind_weights(checkpoint), rules_of(checkpoint->config()));
  CpuDevice cpu(model, device);
  EXPECT_EQ(cpu.step_bytes(), plan.stages[0].step.peak_bytes);
  EXPECT_EQ(cpu.cache_bytes(), sum_of(plan.stages[0].cache));
  StepDescription step;
  for (int32_t row = 0; row < 48; ++row) {
    step.tokens.push_back(row);
    step.positions.push_back(row);
    step.sequences.push_back(0);
  }
  step.pages = {0, 1};
  step.pages_stride = 2;
  step.context_max = plan.max_model_len;
  for (int32_t row = 0; row < std::min<int64_t>(48, device.logits_max); ++row)
    step.logits_rows.push_back(row);
  {
    const ops::Arena::Scope scope(cpu.arena());
    (void)model->forward(cpu.ops(), step_of(step), cpu.cache().views());
  }
  EXPECT_EQ(cpu.arena().peak_bytes(), plan.stages[0].step.peak_bytes);
}

TEST(MemoryPlan, TheCpuComputesAllRanks) {
  PlanRequest request = cpu_request(CheckpointFormat::bf16, small_options());
  request.layout.tensor_parallel = 2;
  request.pipeline_parallel = 2;
  const MemoryPlan plan = plan_memory(load_model_config(served_folder()), request);
  EXPECT_EQ(plan.stages.size(), 1U);
  ASSERT_EQ(plan.notes.size(), 1U);
  EXPECT_NE(plan.notes[0].find("one process computes all 4 ranks"), std::string::npos);
  request.layout.tensor_parallel = 3;
  expect_error([&] { (void)plan_memory(load_model_config(served_folder()), request); },
               {"attention heads (4)"});
}

TEST(DeviceMemory, Sizes) {
  const auto total = [](const char* text) { return parse_device_memory(text).total_bytes; };
  EXPECT_EQ(total("8x141GB"), int64_t{143'771} << 20);
  EXPECT_EQ(total("H200"), total("141GB"));
  EXPECT_EQ(total("7xRTX6000"), int64_t{97'887} << 20);
  EXPECT_EQ(total("2x10GB"), 10'000'000'000);
  EXPECT_EQ(total("2x10GiB"), int64_t{10} << 30);
  EXPECT_EQ(total("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(parse_device_memory("8x141GB").count, 8);
  for (const char* text : {"", "x", "8x", "0x80GB", "-1x80GB", "8x80", "8xA99", "8x-5GB", "1e3x80GB",
                           "8x80GBx", "8xnanGB", "8x1e99GB"}) {
    expect_error([&] { (void)parse_device_memory(text); }, {"argument --device-memory", text});
  }
  EXPECT_GT(this_machine().total_bytes, this_machine().free_bytes);
}

TEST(KvCacheChoice, AutoFollowsTheDevice) {
  const auto choice = [](const char* device) {
    return choose_kv_cache_dtype("auto", ops::ComputeDType::bfloat16, parse_device_memory(device), true);
  };
  EXPECT_EQ(choice("8xH200").dtype, KvCacheDType::fp8);
  EXPECT_EQ(choice("8xB200").dtype, KvCacheDType::fp8);
  EXPECT_EQ(choice("7x96GB").dtype, KvCacheDType::bfloat16);
  EXPECT_NE(choice("7x96GB").reason.find("files declare FP8"), std::string::npos);
  EXPECT_EQ(choose_kv_cache_dtype("fp8", ops::ComputeDType::bfloat16, this_machine(), false).dtype,
            KvCacheDType::fp8);
  EXPECT_EQ(choose_kv_cache_dtype("auto", ops::ComputeDType::float32, this_machine(), false).dtype,
            KvCacheDType::float32);
  for (const char* name : {"fp8_e5m2", "fp8_inc", "turboquant_4bit", "int8_per_token_head", "nvfp4_ds_mla",
                           "fp4_e2m1", "float16", "int3"}) {
    expect_error([&] { (void)parse_kv_cache_dtype(name, ops::ComputeDType::bfloat16); },
                 {"--kv-cache-dtype", name});
  }
}

TEST(PlanReport, LineTableAndJson) {
  const MemoryPlan plan = plan_memory(published(), h200());
  const std::vector<std::string> lines = plan_lines(plan);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].rfind("memory plan (GPU 0-7, GiB): weights 91.1 | kv ", 0), 0U) << lines[0];
  for (const char* part :
       {" tok) | workspace ", "[indexer 2.0, ", " | graphs 0.6 | comm 0.4 | context 0.5 | free "}) {
    EXPECT_NE(lines[0].find(part), std::string::npos) << lines[0];
  }
  const std::string table = plan_table(plan);
  for (const char* part : {"routed experts", "MTP index keys", "54,728", "tokens both striped"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
  const OrderedJson json = plan_json(plan);
  EXPECT_EQ(json.at("stages").at(0).at("cache_bytes_per_token"), 54'728);
  int64_t sum = 0;
  for (const char* key : {"weights", "speculation", "cache", "fixed"}) {
    for (const auto& [name, bytes] : json.at("stages").at(0).at(key).items()) sum += bytes.get<int64_t>();
  }
  sum += json.at("stages").at(0).at("step_bytes").get<int64_t>();
  sum += json.at("stages").at(0).at("free_bytes").get<int64_t>();
  EXPECT_EQ(sum, int64_t{143'771} << 20) << "every byte of the device";
  const std::vector<std::string> start = startup_lines(plan);
  EXPECT_EQ(start.at(1), cat("GPU KV cache size: ", plan.tokens(), " tokens"));
  EXPECT_EQ(start.at(3), "Chunked prefill is enabled with max_num_batched_tokens=8192.");
}

}  // namespace
}  // namespace glint::testing
