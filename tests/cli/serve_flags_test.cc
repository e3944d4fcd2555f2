// Every flag of the table of serve, launch_server and plan.
#include "flags/serve_flags.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "base/flags/flag_parse.h"
#include "base/flags/help.h"
#include "flags/kernel_names.h"
#include "flags/launcher_variables.h"
#include "flags/speculation.h"

namespace glint {
namespace {

const std::string_view kForms[] = {kServe, kLaunchServer, kPlan};

const char* no_environment(const char*) {
  return nullptr;
}

struct Outcome {
  ServeFlags flags;
  FlagReport report;
  std::string error;
};

Outcome parse(const std::vector<std::string>& words, std::string_view form = kServe) {
  Outcome out;
  const FlagTable table = serve_table(form, out.flags);
  try {
    out.report = parse_flags(table, words, no_environment);
  } catch (const Error& error) {
    out.error = error.what();
  }
  return out;
}

/// Words that give the flag some value that it takes.
std::vector<std::string> words_of(const Flag& flag) {
  const std::string name = "--" + flag.name;
  if (flag.kind == FlagKind::toggle) return {name};
  if (flag.kind == FlagKind::object) return {name, "{}"};
  if (flag.name == "chunked-prefill-size" || flag.name == "max-total-tokens") return {name, "64"};
  if (flag.name == "mem-fraction-static") return {name, "0.5"};
  if (flag.name == "speculative-num-draft-tokens") return {name, "2"};
  if (flag.name == "device-memory") return {name, "8xH200"};
  return {name, flag.choices.empty() ? "1" : flag.choices.front()};
}

/// Flags that take any text; what it means is found out later.
const std::set<std::string> kFreeText = {
    "model",       "revision",      "download-dir", "config",       "host",        "generation-config",
    "kv-disk-dir", "watchdog-dump", "uds",          "ssl-certfile", "ssl-keyfile", "ssl-keyfile-password",
    "ssl-ca-certs"};

TEST(ServeFlags, EveryFlagIsExplained) {
  for (const std::string_view form : kForms) {
    ServeFlags flags;
    const FlagTable table = serve_table(form, flags);
    for (const Flag& flag : table.flags()) {
      EXPECT_FALSE(flag_paragraph(flag).empty()) << flag.name;
      EXPECT_FALSE(flag.help_text.empty() && flag.no_effect_reason.empty() && flag.refused_reason.empty())
          << flag.name;
      EXPECT_FALSE(flag.help_text.ends_with('.')) << flag.name;
    }
  }
}

TEST(ServeFlags, IllegalValuesAreRefusedAtOnce) {
  ServeFlags flags;
  const FlagTable table = serve_table(kPlan, flags);
  for (const Flag& flag : table.flags()) {
    if (!flag.refused_reason.empty()) continue;
    const std::string name = "--" + flag.name;
    std::vector<std::vector<std::string>> wrong = {{name + "="}};
    if (flag.kind == FlagKind::toggle) {
      wrong.push_back({name + "=true"});
    } else {
      wrong.push_back({name});
      wrong.push_back({name, "--json"});
    }
    const bool checked = flag.no_effect_reason.empty() || !flag.choices.empty();
    if (flag.kind == FlagKind::value && checked && !kFreeText.contains(flag.name))
      wrong.push_back({name, "zz?"});
    if (flag.kind == FlagKind::object && checked) wrong.push_back({name, "[]"});
    for (const auto& words : wrong) {
      const std::string error = parse(words, kPlan).error;
      EXPECT_EQ(error.rfind("argument " + name + ": ", 0), 0U) << words.back() << ": " << error;
    }
  }
}

TEST(ServeFlags, FlagsWithoutEffectWarnAndRefusedOnesSayWhy) {
  ServeFlags flags;
  const FlagTable table = serve_table(kServe, flags);
  for (const Flag& flag : table.flags()) {
    const Outcome seen = parse(words_of(flag));
    if (!flag.refused_reason.empty()) {
      EXPECT_EQ(seen.error, "argument --" + flag.name + ": " + flag.refused_reason);
    } else if (!flag.no_effect_reason.empty()) {
      EXPECT_EQ(seen.report.warnings,
                std::vector<std::string>{"--" + flag.name + " has no effect in this engine (" +
                                         flag.no_effect_reason + ")"});
    } else {
      EXPECT_EQ(seen.report.warnings, std::vector<std::string>{}) << flag.name;
    }
  }
}

/// vLLM's and SGLang's names that scripts for this model use.
TEST(ServeFlags, KnownNames) {
  const char* const names[] = {"model",
                               "model-path",
                               "served-model-name",
                               "host",
                               "port",
                               "tensor-parallel-size",
                               "tp-size",
                               "tp",
                               "pipeline-parallel-size",
                               "pp-size",
                               "enable-expert-parallel",
                               "quantization",
                               "kv-cache-dtype",
                               "dtype",
                               "trust-remote-code",
                               "gpu-memory-utilization",
                               "mem-fraction-static",
                               "max-model-len",
                               "context-length",
                               "max-num-seqs",
                               "chunked-prefill-size",
                               "enable-prefix-caching",
                               "no-enable-prefix-caching",
                               "disable-radix-cache",
                               "speculative-config",
                               "speculative-algorithm",
                               "tool-call-parser",
                               "enable-auto-tool-choice",
                               "reasoning-parser",
                               "linear-backend",
                               "moe-backend",
                               "moe-runner-backend",
                               "fp4-gemm-backend",
                               "attention-backend",
                               "dsa-prefill-backend",
                               "dsa-decode-backend",
                               "disable-flashinfer-autotune",
                               "disable-custom-all-reduce",
                               "sleep-on-idle",
                               "load-format",
                               "api-key",
                               "pp-layer-partition",
                               "pp-strict-index-boundaries",
                               "kv-cache-memory-bytes",
                               "max-total-tokens",
                               "plan-only",
                               "max-num-batched-tokens",
                               "max-running-requests",
                               "max-queued-requests",
                               "max-prefill-tokens",
                               "busy-poll",
                               "uvicorn-log-level",
                               "disable-uvicorn-access-log",
                               "middleware",
                               "chat-template-content-format",
                               "default-chat-template-kwargs",
                               "enable-prompt-tokens-details",
                               "enable-force-include-usage",
                               "generation-config",
                               "enable-server-load-tracking",
                               "disable-log-stats",
                               "shutdown-timeout",
                               "log-level",
                               "log-level-http",
                               "enable-metrics",
                               "enable-cache-report",
                               "decode-log-interval",
                               "watchdog-timeout",
                               "skip-server-warmup",
                               "stream-interval",
                               "enable-per-request-metrics",
                               "per-request-spec-decode-metrics",
                               "quantization-param-path",
                               "return-tokens-as-token-ids",
                               "warmups",
                               "autotune",
                               "strict-model-name",
                               "max-logprobs",
                               "data-parallel-size",
                               "dp-size",
                               "ep-size",
                               "decode-context-parallel-size",
                               "block-size",
                               "page-size",
                               "enable-chunked-prefill",
                               "no-enable-chunked-prefill",
                               "enforce-eager",
                               "swap-space",
                               "seed",
                               "enable-deterministic-inference",
                               "metrics-compat"};
  ServeFlags flags;
  const FlagTable table = serve_table(kServe, flags);
  for (const char* name : names) EXPECT_NE(table.find(name).flag, nullptr) << name;
}

/// What torchrun sets, one process and several.
TEST(LauncherVariables, OneProcessServes) {
  const auto error = [](const std::map<std::string, std::string>& set) -> std::string {
    try {
      check_launcher([&](const char* name) -> const char* {
        const auto found = set.find(name);
        return found == set.end() ? nullptr : found->second.c_str();
      });
    } catch (const Error& refused) {
      return refused.what();
    }
    return "";
  };
  EXPECT_EQ(error({}), "");
  EXPECT_EQ(error({{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "29500"}}), "");
  const std::string advice =
      ": one process computes all ranks, so start glint once and without a launcher (torchrun), or unset it";
  EXPECT_EQ(error({{"RANK", "3"}, {"WORLD_SIZE", "8"}}), "environment variable WORLD_SIZE 8" + advice);
  EXPECT_EQ(error({{"RANK", "3"}}), "environment variable RANK 3" + advice);
  EXPECT_EQ(error({{"LOCAL_RANK", "1"}}), "environment variable LOCAL_RANK 1" + advice);
  EXPECT_EQ(error({{"WORLD_SIZE", "x"}}), "environment variable WORLD_SIZE: invalid int value: 'x'");
  EXPECT_NE(error({{"RANK", "-1"}}), "");
}

TEST(LauncherVariables, OfOtherEngines) {
  ServeFlags flags;
  const FlagTable table = serve_table(kServe, flags);
  const auto lines = variables_without_effect(
      table, {"HOME", "LMCACHE_CONFIG_FILE", "VLLM_API_KEY", "VLLM_BATCH_INVARIANT", "VLLM_PORT",
              "VLLM_ROCM_USE_AITER", "VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS", "VLLM_USE_DEEP_GEMM"});
  const std::vector<std::string> wanted = {
      "LMCACHE_CONFIG_FILE has no effect in this engine (pages beyond memory are kept by --kv-disk-dir)",
      "VLLM_PORT has no effect in this engine (one process computes all ranks; the port to listen on is "
      "--port)",
      "VLLM_ROCM_USE_AITER, VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS have no effect in this engine (there "
      "is no AMD GPU)",
      "VLLM_USE_DEEP_GEMM has no effect in this engine (no flag of this program reads it)"};
  EXPECT_EQ(lines, wanted);
}

TEST(ServeFlags, BatchInvarianceByVariable) {
  ServeFlags flags;
  const FlagTable table = serve_table(kServe, flags);
  parse_flags(table, {}, [](const char* name) {
    return std::string_view(name) == "VLLM_BATCH_INVARIANT" ? "1" : nullptr;
  });
  EXPECT_TRUE(flags.engine.cuda.batch_invariant);
}

TEST(ServeFlags, DefaultsOfTheForms) {
  EXPECT_EQ(parse({}).flags.serve.http.host, "0.0.0.0");
  EXPECT_EQ(parse({}).flags.serve.http.port, 8000);
  EXPECT_EQ(parse({}, kLaunchServer).flags.serve.http.host, "127.0.0.1");
  EXPECT_EQ(parse({}, kLaunchServer).flags.serve.http.port, 30000);
  EXPECT_NE(parse({"--device-memory", "8xH200"}).error, "");
  EXPECT_EQ(parse({"--device-memory", "8xH200"}, kPlan).error, "");
}

TEST(ServeFlags, ShortForms) {
  const MemoryFlags memory = parse({"-tp", "4", "-pp", "2", "-dp", "3", "-ep", "-dcp=2"}).flags.memory;
  EXPECT_EQ(memory.tensor_parallel_size, 4);
  EXPECT_EQ(memory.pipeline_parallel_size, 2);
  EXPECT_EQ(memory.data_parallel_size, 3);
  EXPECT_EQ(memory.decode_context_parallel_size, 2);
  EXPECT_TRUE(memory.expert_parallel);
  EXPECT_EQ(parse({"-q", "modelopt"}).flags.quantization, "modelopt");
  EXPECT_EQ(parse({"-O3"}).error, "");
}

TEST(ServeFlags, Drafts) {
  const auto drafts = [](const std::vector<std::string>& words) {
    const Outcome seen = parse(words);
    EXPECT_EQ(seen.error, "");
    return drafts_asked(seen.flags);
  };
  EXPECT_EQ(drafts({}), 0);
  EXPECT_EQ(drafts({"--speculative-config.method", "mtp", "--speculative-config.num_speculative_tokens=5"}),
            5);
  EXPECT_EQ(drafts({"--speculative-algorithm", "EAGLE"}), 3);
  EXPECT_EQ(drafts({"--speculative-algorithm", "NEXTN", "--speculative-num-steps", "5",
                    "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "6"}),
            5);
  EXPECT_EQ(drafts({"--speculative-algorithm", "EAGLE", "--speculative-num-draft-tokens", "5"}), 4);
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--speculative-num-steps", "3"},
           {"--speculative-algorithm", "EAGLE", "--speculative-eagle-topk", "4"},
           {"--speculative-algorithm", "EAGLE", "--speculative-num-steps", "9"},
           {"--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3",
            "--speculative-num-draft-tokens", "5"},
           {"--speculative-algorithm", "EAGLE", "--speculative-config",
            R"({"method": "mtp", "num_speculative_tokens": 5})"}}) {
    const Outcome seen = parse(words);
    ASSERT_EQ(seen.error, "");
    EXPECT_THROW(drafts_asked(seen.flags), Error) << words.back();
  }
  EXPECT_NE(parse({"--speculative-algorithm", "EAGLE3"}).error.find("no head of that kind"),
            std::string::npos);
}

TEST(ServeFlags, KernelNames) {
  const auto flags = [](const std::string& name) { return parse({"--moe-backend", name}).flags; };
  EXPECT_NO_THROW(check_kernel_names(flags("deep_gemm"), CheckpointFormat::fp8));
  EXPECT_THROW(check_kernel_names(flags("deep_gemm"), CheckpointFormat::nvfp4), Error);
  EXPECT_THROW(check_kernel_names(flags("flashinfer_cutedsl"), CheckpointFormat::fp8), Error);
  EXPECT_NO_THROW(check_kernel_names(flags("flashinfer-cutedsl"), CheckpointFormat::nvfp4));
  EXPECT_THROW(check_kernel_names(flags("marlin"), CheckpointFormat::bf16), Error);
  EXPECT_EQ(kernel_notes(flags("triton"), "CPU"),
            std::vector<std::string>{"moe-backend triton -> native kernels (CPU)"});
  EXPECT_EQ(parse({"--moe-backend", "aiter"})
                .error.rfind("argument --moe-backend: moe backend 'aiter' needs an AMD GPU", 0),
            0U);
}

}  // namespace
}  // namespace glint
