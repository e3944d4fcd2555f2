// Random mixed workloads: every answer must be, token for token, what the same request gets alone from a
// plain engine.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/make_checkpoint.h"
#include "engine_support.h"
#include "support/temp_folder.h"

namespace glint::testing {
namespace {

/// Allows ids whose difference to the token before (or to 0) is small modulo 256: a rule that needs the whole
/// way of a token, drafts included.
class NeighbourConstraint : public TokenConstraint {
 public:
  explicit NeighbourConstraint(int64_t vocab_size) : bits_(static_cast<size_t>((vocab_size + 31) / 32)) {}
  std::span<const uint32_t> allowed() override {
    const auto last = static_cast<uint32_t>(heard_.empty() ? 0 : heard_.back());
    for (size_t word = 0; word < bits_.size(); ++word) {
      bits_[word] = (word + last / 32) % 3 == 0 ? 0xFFFFFFFFU : 0x0F0F0F0FU << last % 4;
    }
    return bits_;
  }
  void push(TokenId token) override { heard_.push_back(token); }
  void pop(int64_t count) override { heard_.resize(heard_.size() - static_cast<size_t>(count)); }

 private:
  std::vector<uint32_t> bits_;
  std::vector<TokenId> heard_;
};

/// Random combinations of everything that stands between logits and token.
void add_random_rules(std::mt19937& random, SamplingParams& sampling) {
  const auto id = [&] { return static_cast<TokenId>(random() % 250); };
  if (random() % 4 == 0) sampling.presence_penalty = 0.5F;
  if (random() % 4 == 0) sampling.frequency_penalty = 0.3F;
  if (random() % 4 == 0) sampling.repetition_penalty = random() % 2 == 0 ? 1.2F : 0.7F;
  if (random() % 4 == 0) sampling.logit_bias = {{id(), 5.0F}, {id(), -3.0F}, {id(), 2.0F}};
  if (random() % 3 == 0) {  // of few ids many drafts are confirmed
    sampling.allowed_token_ids.emplace();
    const int ids = 2 << random() % 5;
    for (int i = 0; i < ids; ++i)
      sampling.allowed_token_ids->push_back(i * 6 + static_cast<TokenId>(random() % 3));
  }
  if (random() % 4 == 0) sampling.bad_words = {{id()}, {id(), id()}, {id(), id(), id()}};
  if (random() % 5 == 0) sampling.reasoning = {{7, 9}, static_cast<int64_t>(random() % 8), 9};
  if (random() % 3 == 0) sampling.logprobs = static_cast<int32_t>(random() % 4);
  if (random() % 6 == 0) sampling.prompt_logprobs = static_cast<int32_t>(random() % 3);
}

/// Constraints have state: one for each time that a request is sent.
EngineRequest sendable(EngineRequest request, const std::filesystem::path& folder) {
  if (request.sampling.seed == 3U) {
    request.sampling.constraint = std::make_shared<NeighbourConstraint>(load_model_config(folder).vocab_size);
  }
  return request;
}

/// A few prompts that share beginnings of various lengths, around page boundaries too.
EngineRequest random_request(std::mt19937& random) {
  EngineRequest request;
  const auto family = static_cast<int>(random() % 3);
  const int lengths[] = {1, 7, 63, 64, 65, 128, 130, 191};
  const int length = lengths[random() % 8];
  for (int i = 0; i < length; ++i) request.prompt.push_back((i * 37 + family * 11) % 250);
  if (random() % 2 == 0) request.prompt.push_back(static_cast<TokenId>(random() % 4));
  request.sampling.max_tokens = 1 + static_cast<int64_t>(random() % 20);
  request.sampling.temperature = random() % 2 == 0 ? 0.0F : 0.9F;
  request.sampling.top_k = random() % 3 == 0 ? 20 : 0;
  request.sampling.top_p = random() % 3 == 0 ? 0.8F : 1.0F;
  request.sampling.min_p = random() % 4 == 0 ? 0.02F : 0.0F;
  request.sampling.seed = random() % 4;
  request.sampling.min_tokens = random() % 4 == 0 ? 2 : 0;
  request.sampling.ignore_eos = random() % 2 == 0;
  if (random() % 4 == 0) request.sampling.stop_token_ids = {static_cast<TokenId>(random() % 250)};
  if (random() % 4 == 0) request.sampling.stop = {std::string(1, static_cast<char>('a' + random() % 26))};
  if (random() % 5 == 0) request.cache_salt = "tenant";
  add_random_rules(random, request.sampling);
  return request;
}

std::string signature(const EngineRequest& request) {
  const SamplingParams& sampling = request.sampling;
  std::string text =
      cat(sampling.max_tokens, "/", sampling.temperature, "/", sampling.top_k, "/", sampling.top_p, "/",
          sampling.min_p, "/", *sampling.seed, "/", sampling.min_tokens, "/", sampling.ignore_eos, "/",
          sampling.presence_penalty, "/", sampling.frequency_penalty, "/", sampling.repetition_penalty, "/",
          sampling.reasoning.budget, "/", sampling.logprobs.value_or(-9), "/",
          sampling.prompt_logprobs.value_or(-9));
  for (const TokenId id : sampling.stop_token_ids) text += cat(" t", id);
  for (const std::string& stop : sampling.stop) text += " s" + stop;
  for (const LogitBias& entry : sampling.logit_bias) text += cat(" b", entry.id, ":", entry.bias);
  for (const auto& word : sampling.bad_words) {
    text += " w";
    for (const TokenId id : word) text += cat(" ", id);
  }
  if (sampling.allowed_token_ids) {
    text += " a";
    for (const TokenId id : *sampling.allowed_token_ids) text += cat(" ", id);
  }
  text += " p";
  for (const TokenId id : request.prompt) text += cat(" ", id);
  return text;
}

EngineOptions random_options(std::mt19937& random, const std::filesystem::path& folder,
                             const std::filesystem::path& disk) {
  EngineOptions options = small_options();
  options.threads = 1 + static_cast<int>(random() % 3);
  options.max_num_seqs = 1 + static_cast<int64_t>(random() % 8);
  options.num_speculative_tokens = random() % 3 == 0 ? 0 : 1 + static_cast<int64_t>(random() % 8);
  options.prefix_caching = random() % 4 != 0;
  const int64_t least = options.max_num_seqs * (1 + options.num_speculative_tokens);
  if (random() % 5 == 0) options.num_speculative_tokens = kSpeculativeTokensAuto;
  options.max_num_batched_tokens = least + static_cast<int64_t>(random() % 60);
  options.max_model_len = 256;
  const EnginePlan plan = plan_engine(*Checkpoint::open(folder), options);
  const int64_t page = plan.cache_bytes / plan.cache_pages;
  if (random() % 2 == 0) {  // hardly more than one request fits: preemption
    options.kv_cache_memory_bytes = page * static_cast<int64_t>(4 + random() % 3);
  }
  if (options.prefix_caching && random() % 2 == 0) {  // what the workloads before left, seldom all of it
    options.kv_disk_dir = disk;
    options.kv_disk_bytes = page * (random() % 2 == 0 ? 6 : 200);
  }
  return options;
}

/// 0.2 GB in FP8: experts enough that rows spread over them, and weights that no cache holds.
std::filesystem::path large_standin() {
  static const std::filesystem::path folder = [] {
    const std::filesystem::path source =
        std::filesystem::path(GLINT_TEST_DATA) / "../../bench/demo-config.json";
    Json config = parse_json(read_file(source), source.string());
    config["n_routed_experts"] = 64;
    const std::filesystem::path made = std::filesystem::path(::testing::TempDir()) / "workload-standin";
    MakeCheckpointOptions options;
    options.config_text = config.dump();
    options.config_name = source.string();
    options.seed = 3;
    options.format = CheckpointFormat::fp8;
    options.folder = made;
    options.replace = true;
    const MadeCheckpoint result = make_checkpoint(options);
    EXPECT_GT(result.tensor_bytes, 180'000'000);
    write_standin_tokenizer(load_model_config(made), made);
    return made;
  }();
  return folder;
}

/// What the workloads of one checkpoint met in all.
struct Met {
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
  for (int workload = 0; workload < workloads; ++workload) {
    SCOPED_TRACE(cat(folder.filename().string(), ", workload ", workload));
    Collector collector;
    const auto engine = start(collector, random_options(random, folder, disk.path()), folder);
    std::vector<std::pair<uint64_t, EngineRequest>> sent;
    for (int i = 0; i < 10; ++i) {
      EngineRequest request = random_request(random);
      const uint64_t id = engine->submit(sendable(request, folder));
      if (random() % 8 == 0) {
        engine->abort(id);
      } else {
        sent.emplace_back(id, std::move(request));
      }
    }
    for (const auto& [id, request] : sent) {
      Answer& single = expected[signature(request)];
      if (single.finish == FinishReason::none)
        single = alone_collector.wait(alone->submit(sendable(request, folder)));
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
  EXPECT_GT(met.preemptions, 0U);
  EXPECT_GT(met.hits, 0U);
  EXPECT_GT(met.restored, 0U);
  EXPECT_GT(met.accepted, 0U);
  EXPECT_GT(met.scored, 0U);
  EXPECT_GT(met.forced, 0U);
}

}  // namespace
}  // namespace glint::testing
