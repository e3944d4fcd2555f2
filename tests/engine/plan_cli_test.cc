// `glint plan` and `glint serve --plan-only` as a user runs them, on a folder that holds a config.json and
// nothing else.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "base/json.h"
#include "support/temp_folder.h"

namespace glint {
namespace {

struct Outcome {
  int status = 0;
  std::string text;  // both streams
};

Outcome run(const std::string& command, const std::string& environment = "") {
  FILE* const pipe = popen((environment + " " + GLINT_BINARY + " " + command + " 2>&1").c_str(), "r");
  Outcome out;
  std::array<char, 4096> buffer{};
  for (size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    out.text.append(buffer.data(), got);
  }
  out.status = WEXITSTATUS(pclose(pipe));
  return out;
}

/// The published config, alone in its folder.
std::string folder() {
  static const TempFolder made;
  static const bool filled = std::filesystem::copy_file(
      std::filesystem::path(GLINT_TEST_DATA) / "glm-5.3-config.json", made.path() / "config.json");
  EXPECT_TRUE(filled);
  return made.path().string();
}

Outcome plan(const std::string& flags, const std::string& environment = "") {
  return run("plan " + folder() + " --format fp8 --device-memory 8x141GB --json " + flags, environment);
}

TEST(PlanCli, TakesTheRecipesServerLine) {
  const Outcome out = plan(
      "--kv-cache-dtype fp8 --tensor-parallel-size 8 --speculative-config.method mtp "
      "--speculative-config.num_speculative_tokens 5 --tool-call-parser glm47 --reasoning-parser glm45 "
      "--enable-auto-tool-choice --served-model-name glm-5.3");
  ASSERT_EQ(out.status, 0) << out.text;
  const Json json = parse_json(out.text, "output");
  EXPECT_EQ(json.at("stages").at(0).at("cache_bytes_per_token"), 54'728);
  EXPECT_EQ(json.at("tensor_parallel"), 8);
}

TEST(PlanCli, SpellingsOfTheSameThing) {
  const std::string wanted =
      plan("--tensor-parallel-size 4 --pipeline-parallel-size 2 --max-model-len 64K").text;
  EXPECT_EQ(plan("-tp 4 -pp 2 --context-length 65536").text, wanted);
  EXPECT_EQ(plan("--tp-size 4 --pp-size 2 --max-model-len 65536 --max-running-requests 1024").text, wanted);
  EXPECT_EQ(plan("--tp 4 --pp 2 --max-model-len 65536 --chunked-prefill-size 8192").text, wanted);
  EXPECT_EQ(plan("--max-model-len auto").text, plan("--max-model-len -1").text);
}

TEST(PlanCli, PartitionFromTheEnvironment) {
  const auto partition = [](const Outcome& out) {
    return parse_json(out.text, "output").at("partition").dump();
  };
  EXPECT_EQ(partition(plan("-tp 4 -pp 2", "VLLM_PP_LAYER_PARTITION=42,36")), "[42,36]");
  EXPECT_EQ(partition(plan("-tp 4 -pp 2", "SGLANG_PP_LAYER_PARTITION=42,36")), "[42,36]");
  EXPECT_EQ(partition(plan("-tp 4 -pp 2 --pp-layer-partition 38,40", "VLLM_PP_LAYER_PARTITION=42,36")),
            "[38,40]");
  const Outcome both = plan("-tp 4 -pp 2", "VLLM_PP_LAYER_PARTITION=42,36 SGLANG_PP_LAYER_PARTITION=38,40");
  EXPECT_EQ(both.status, 2);
  EXPECT_NE(both.text.find("differ"), std::string::npos);
}

/// Before any weight is read: there are none.
TEST(PlanCli, IllegalValuesEndServeWithOneLine) {
  for (const std::string flags : {"--tensor-parallel-size 7",
                                  "--tensor-parallel-size 0",
                                  "--tp-size x",
                                  "--pp-size 2 --pp-layer-partition 1,2",
                                  "--pp-size 22",
                                  "--decode-context-parallel-size 2",
                                  "--max-model-len 1.5K",
                                  "--max-model-len 2M",
                                  "--max-num-seqs 0",
                                  "--chunked-prefill-size 0",
                                  "--chunked-prefill-size -2",
                                  "--chunked-prefill-size 100",
                                  "--gpu-memory-utilization 0",
                                  "--mem-fraction-static 1",
                                  "--gpu-memory-utilization nan",
                                  "--gpu-memory-utilization 0.9 --mem-fraction-static 0.9",
                                  "--kv-cache-memory-bytes 1000",
                                  "--kv-cache-dtype fp8_e5m2",
                                  "--kv-cache-dtype x",
                                  "--indexer-scratch-bytes 1k",
                                  "--max-total-tokens 5",
                                  "--max-logprobs -2",
                                  "--gpu-memory-utilization ''",
                                  "--served-model-name ''",
                                  "--speculative-config '[]'",
                                  "--max-num-seqs 64 --max-num-batched-tokens 32"}) {
    const Outcome seen = run("serve " + folder() + " --threads 2 " + flags);
    EXPECT_EQ(seen.status, 2) << flags << ": " << seen.text;
    EXPECT_EQ(seen.text.rfind("glint serve: error: ", 0), 0U) << seen.text;
    EXPECT_EQ(seen.text.find('\n'), seen.text.size() - 1) << flags << ": " << seen.text;
  }
}

TEST(PlanCli, ServePlansWithoutAShard) {
  const Outcome out =
      run("serve " + folder() +
          " --plan-only --json --threads 2 --max-logprobs 5 --max-model-len 4k --kv-cache-memory-bytes 1g");
  ASSERT_EQ(out.status, 0) << out.text;
  const Json json = parse_json(out.text, "output");
  EXPECT_EQ(json.at("device"), "CPU");
  EXPECT_EQ(json.at("max_model_len"), 4000);
  // BF16 rows and FP8 keys in pages of 64.
  EXPECT_EQ(json.at("pages"), 1'000'000'000 / (64 * 92'628));
}

}  // namespace
}  // namespace glint
