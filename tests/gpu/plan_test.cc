// Without a GPU: what the CUDA operations take of a step's memory is what the memory plan declares for them,
// and a machine without a driver is told so in one line.
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/config.h"
#include "engine/cpu_device.h"
#include "engine/cuda_weights.h"
#include "engine/device_choice.h"
#include "engine/memory_plan.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/declared_ops.h"

namespace glint {
namespace {

ModelConfig golden_config(const std::string& name) {
  return load_model_config(std::filesystem::path(GLINT_TEST_DATA) / "goldens" / name);
}

int64_t cuda_peak(const Model& model, const DeviceOptions& options) {
  ops::Arena arena;
  const ops::cuda::ExpertTables none;
  const auto ops = ops::cuda::make_cuda_ops(ops::ComputeDType::bfloat16, arena, none, {}, nullptr);
  return planned_step(model, options, *ops).peak_bytes;
}

int64_t declared_peak(const Model& model, const DeviceOptions& options) {
  ops::Arena arena;
  ops::DeclaredOps ops(arena, {});
  return planned_step(model, options, ops).peak_bytes;
}

TEST(CudaPlan, StepsTakeWhatIsDeclared) {
  for (const char* name : {"micro", "geometry", "longtopk"}) {
    for (const auto format : {CheckpointFormat::bf16, CheckpointFormat::fp8, CheckpointFormat::nvfp4}) {
      const ModelConfig config = golden_config(name);
      const Model model(planned_weights(config, format), rules_of(config));
      DeviceOptions options;
      options.kv_cache_dtype = KvCacheDType::fp8;
      options.context_max = 4096;
      options.with_mtp = true;
      int64_t before = 0;
      for (const int64_t rows : {1, 7, 65, 200, 2048}) {
        options.rows_max = rows;
        const int64_t peak = cuda_peak(model, options);
        EXPECT_EQ(peak, declared_peak(model, options)) << name << ", rows " << rows;
        // A plan for more rows holds for fewer.
        EXPECT_GE(peak, before) << name << ", rows " << rows;
        before = peak;
      }
    }
  }
}

/// The full model: what a device takes for its weights beside the plan's figure, in bytes; vectors, tables
/// and gaps.
int64_t taken_beside_the_plan(CheckpointFormat format, int64_t drafts) {
  const ModelConfig config =
      load_model_config(std::filesystem::path(GLINT_TEST_DATA) / "glm-5.3-config.json");
  PlanRequest request;
  request.format = format;
  request.engine.num_speculative_tokens = drafts;
  request.engine.max_model_len = 8192;
  request.device = {
      .kind = DeviceKind::gpu, .count = 1, .total_bytes = int64_t{4} << 40, .free_bytes = int64_t{4} << 40};
  const MemoryPlan plan = plan_memory(config, request);
  const StagePlan& stage = plan.stages.front();
  ModelWeights weights = planned_weights(config, format);
  if (drafts == 0) weights.mtp = {};
  return device_weight_bytes(std::move(weights), ops::ComputeDType::bfloat16) - sum_of(stage.weights) -
         sum_of(stage.speculation);
}

TEST(CudaPlan, WeightsTakeWhatIsPlanned) {
  for (const auto format : {CheckpointFormat::bf16, CheckpointFormat::fp8, CheckpointFormat::nvfp4}) {
    for (const int64_t drafts : {0, 3}) {
      const int64_t beside = taken_beside_the_plan(format, drafts);
      EXPECT_LT(std::abs(beside), int64_t{64} << 20) << drafts << " drafts: " << beside << " bytes";
    }
  }
}

TEST(CudaChoice, TextIsReadStrictly) {
  EXPECT_EQ(parse_device("cpu").kind, DeviceKind::cpu);
  EXPECT_EQ(parse_device("cuda").ordinal, 0);
  EXPECT_EQ(parse_device("cuda:3").ordinal, 3);
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "CUDA"}) {
    EXPECT_THROW(parse_device(wrong), Error) << wrong;
  }
}

TEST(CudaChoice, AMachineWithoutADeviceIsToldSo) {
  try {
    open_device({.kind = DeviceKind::gpu, .ordinal = 1000});
    FAIL() << "a thousand GPUs";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_EQ(std::string(error.what()).rfind("argument --device: cuda:1000: this machine has ", 0), 0U)
        << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace glint
