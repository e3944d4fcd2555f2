// Random mixed workloads: every answer must be, token for token, what the same request gets alone from a
// plain engine.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/make_checkpoint.h"
#include "random_requests.h"
#include "support/temp_folder.h"

namespace glint::testing {
namespace {

/// 0.2 GB in FP8: experts enough that rows spread over them, and weights that no cache holds.
std::filesystem::path large_standin() {
  static const TempFolder temporary;
  static const std::filesystem::path folder = [] {
    const std::filesystem::path source =
        std::filesystem::path(GLINT_TEST_DATA) / "../../bench/demo-config.json";
    Json config = parse_json(read_file(source), source.string());
    config["n_routed_experts"] = 64;
    const std::filesystem::path made = temporary.path() / "standin";
    MakeCheckpointOptions options;
    options.config_text = config.dump();
    options.config_name = source.string();
    options.seed = 3;
    options.format = CheckpointFormat::fp8;
    options.folder = made;
    const MadeCheckpoint result = make_checkpoint(options);
    EXPECT_GT(result.tensor_bytes, 180'000'000);
    write_standin_tokenizer(load_model_config(made), made);
    return made;
  }();
  return folder;
}

/// What the workloads of one checkpoint met in all.
struct Met {
  RoundCounts rounds;
  uint64_t preemptions = 0, hits = 0, restored = 0, accepted = 0, scored = 0, forced = 0;
};

/// Runs random workloads on a checkpoint; every answer must equal that of a plain engine (no cache, no
/// drafts) to the same request alone.
void run_workloads(const std::filesystem::path& folder, int workloads, uint32_t seed, Met& met) {
  std::mt19937 random(seed);
  EngineOptions plain = small_options();
  plain.max_model_len = 256;
  plain.prefix_caching = false;
  Collector alone_collector;
  const auto alone = start(alone_collector, plain, folder);
  std::map<std::string, Answer> expected;
  const TempFolder disk;
  const int64_t vocab_size = load_model_config(folder).vocab_size;
  for (int workload = 0; workload < workloads; ++workload) {
    SCOPED_TRACE(cat(folder.filename().string(), ", workload ", workload));
    Collector collector;
    const EngineOptions options = random_options(random, folder, disk.path());
    const bool rounds = random() % 2 == 0;
    const auto engine =
        start(collector, options, folder, rounds ? with_rounds(options, met.rounds) : ExecutorWrap());
    std::vector<std::pair<uint64_t, EngineRequest>> sent;
    for (int i = 0; i < 10; ++i) {
      EngineRequest request = random_request(random);
      if (rounds && random() % 8 != 0) drop_rules(request.sampling);
      const uint64_t id = engine->submit(sendable(request, vocab_size));
      if (random() % 8 == 0) {
        engine->abort(id);
      } else {
        sent.emplace_back(id, std::move(request));
      }
    }
    for (const auto& [id, request] : sent) {
      Answer& single = expected[signature(request)];
      if (single.finish == FinishReason::none)
        single = alone_collector.wait(alone->submit(sendable(request, vocab_size)));
      const Answer together = collector.wait(id);
      ASSERT_EQ(together.tokens, single.tokens) << signature(request);
      ASSERT_EQ(together.finish, single.finish);
      ASSERT_EQ(together.stop_string, single.stop_string);
      ASSERT_EQ(together.stop_token, single.stop_token);
      ASSERT_EQ(together.error, single.error);
      ASSERT_TRUE(equal(together.logprobs, single.logprobs)) << signature(request);
      ASSERT_TRUE(equal(together.prompt_logprobs, single.prompt_logprobs)) << signature(request);
      if (request.sampling.logprobs) {
        ASSERT_EQ(together.logprobs.chosen.size(), together.tokens.size());
      }
      if (request.sampling.prompt_logprobs) {
        ASSERT_EQ(together.prompt_logprobs.chosen.size(), request.prompt.size() - 1);
        for (size_t i = 0; i + 1 < request.prompt.size(); ++i) {
          ASSERT_EQ(together.prompt_logprobs.chosen[i].id, request.prompt[i + 1]);
        }
      }
      met.scored += together.prompt_logprobs.chosen.size();
      met.forced += request.sampling.reasoning.budget >= 0 && !together.tokens.empty();
    }
    EXPECT_TRUE(pages_come_free(*engine));
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.tier.damaged + stats.tier.read_errors + stats.tier.write_errors, 0U);
    met.preemptions += stats.preemptions;
    met.hits += stats.prefix_hits_tokens;
    met.restored += stats.tier_hits_tokens;
    met.accepted += stats.drafts.accepted_tokens;
  }
}

/// 40 workloads, or as many as GLINT_WORKLOADS says; most of them on the smallest checkpoint.
TEST(Workload, EveryAnswerIsWhatTheRequestGetsAlone) {
  const char* asked = std::getenv("GLINT_WORKLOADS");
  const int workloads = asked == nullptr ? 40 : std::max(20, std::atoi(asked));
  Met met;
  const int part = workloads / 20;
  const int others = part * static_cast<int>(golden_cases().size());
  uint32_t seed = 2026;
  for (const GoldenCase& test : golden_cases()) {
    const bool smallest = std::string_view(test.name) == "micro-fp8";
    run_workloads(served_folder(test.name), smallest ? workloads - others : part, seed++, met);
  }
  run_workloads(large_standin(), part, seed, met);
  // The workloads did meet what they are about.
  EXPECT_GT(met.rounds.started, 0);
  EXPECT_GT(met.rounds.continued, 0);
  EXPECT_GT(met.preemptions, 0U);
  EXPECT_GT(met.hits, 0U);
  EXPECT_GT(met.restored, 0U);
  EXPECT_GT(met.accepted, 0U);
  EXPECT_GT(met.scored, 0U);
  EXPECT_GT(met.forced, 0U);
}

}  // namespace
}  // namespace glint::testing
